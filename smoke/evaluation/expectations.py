"""Checks the expectations of a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core import money
from smoke.config import Expectations


@dataclass(frozen=True, slots=True)
class ScoreMean:
    """The scores of a run's replies by one criterion."""

    mean: float
    count: int


@dataclass(frozen=True, slots=True)
class RunResult:
    replies: Sequence[str]
    """The agent's replies."""
    tools: Collection[str]
    """Names of all called tools, at every depth."""
    stopped_because: str
    cost_micro_usd: int | None
    """Cost of the replies; None if unknown."""
    scores: Mapping[str, ScoreMean]
    """By `judge.criterion`."""
    unscored: Mapping[str, str]
    """Why a judge has not scored every reply, by judge name."""


@dataclass(frozen=True, slots=True)
class ExpectationCheck:
    expectation: str
    """The expectation as a sentence."""
    unmet: str | None = None
    """The actual value as a sentence; None if the expectation is met."""


def list_unmet(expect: Expectations, result: RunResult) -> list[str]:
    """Return a sentence for each expectation that is not met."""
    found = (check.unmet for check in check_expectations(expect, result))
    return [sentence for sentence in found if sentence is not None]


def check_expectations(
    expect: Expectations, result: RunResult
) -> list[ExpectationCheck]:
    return [
        *_check_tools(expect, result),
        *_check_texts(expect, result),
        *_check_length(expect, result),
        *_check_cost(expect, result),
        *_check_scores(expect, result),
    ]


def _check_tools(expect: Expectations, result: RunResult) -> Iterator[ExpectationCheck]:
    for name in expect.tools_called:
        called = ", ".join(sorted(result.tools)) or "none"
        unmet = f"tool '{name}' was not called (called: {called})"
        yield _build_check(
            f"tool '{name}' is called", unmet, is_met=name in result.tools
        )
    for name in expect.tools_not_called:
        is_met = name not in result.tools
        yield _build_check(
            f"tool '{name}' is not called", f"tool '{name}' was called", is_met=is_met
        )


def _build_check(expectation: str, unmet: str, *, is_met: bool) -> ExpectationCheck:
    return ExpectationCheck(expectation, None if is_met else unmet)


def _check_texts(expect: Expectations, result: RunResult) -> Iterator[ExpectationCheck]:
    for text in expect.contains:
        is_met = any(_contains(reply, text) for reply in result.replies)
        yield _build_check(
            f"a reply contains '{text}'", f"no reply contains '{text}'", is_met=is_met
        )
    for text in expect.not_contains:
        replies = enumerate(result.replies, 1)
        number = next((n for n, each in replies if _contains(each, text)), None)
        yield _build_check(
            f"no reply contains '{text}'",
            f"reply {number} contains '{text}'",
            is_met=number is None,
        )


def _contains(reply: str, text: str) -> bool:
    return text.casefold() in reply.casefold()


def _check_length(
    expect: Expectations, result: RunResult
) -> Iterator[ExpectationCheck]:
    limit, turns = expect.max_turns, len(result.replies)
    if limit is None:
        return
    unmet = f"the conversation took {turns} turns (at most {limit})"
    is_met = turns <= limit
    if result.stopped_because == "max_turns":
        is_met = False
        unmet = f"no stop marker within {turns} turns (at most {limit})"
    expectation = f"the conversation takes at most {limit} turns"
    yield _build_check(expectation, unmet, is_met=is_met)


def _check_cost(expect: Expectations, result: RunResult) -> Iterator[ExpectationCheck]:
    limit, cost = expect.max_cost_usd, result.cost_micro_usd
    if limit is None:
        return
    expectation = f"the replies cost at most ${limit:g}"
    if cost is None:
        yield ExpectationCheck(
            expectation,
            "the cost of the replies is unknown; add the model's price under prices: "
            "in coulisse.yaml",
        )
        return
    unmet = f"the replies cost ${money.decimal_usd(cost)} (at most ${limit:g})"
    yield _build_check(expectation, unmet, is_met=cost <= limit * 1_000_000)


def _check_scores(
    expect: Expectations, result: RunResult
) -> Iterator[ExpectationCheck]:
    for name, minimum in expect.min_score.items():
        expectation = f"the mean of {name} is at least {minimum:g}"
        found = result.scores.get(name)
        if found is None:
            judge = name.rpartition(".")[0]
            reason = result.unscored.get(judge, "the judge scored no reply")
            yield ExpectationCheck(expectation, f"{name} has no score: {reason}")
            continue
        count = "1 score" if found.count == 1 else f"{found.count} scores"
        unmet = (
            f"the mean of {name} is {found.mean:.2f} over {count} (at least "
            f"{minimum:g})"
        )
        yield _build_check(expectation, unmet, is_met=found.mean >= minimum)
