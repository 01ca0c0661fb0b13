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
    """The result of a run."""

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
    """Why judges have not scored everything, by judge name."""


@dataclass(frozen=True, slots=True)
class ExpectationCheck:
    """One expectation of a run."""

    expectation: str
    """The expectation as a sentence."""
    unmet: str | None = None
    """The actual value as a sentence; None if the expectation is met."""


def list_unmet(expect: Expectations, seen: RunResult) -> list[str]:
    """Return a sentence for each expectation that is not met."""
    found = (check.unmet for check in check_expectations(expect, seen))
    return [sentence for sentence in found if sentence is not None]


def check_expectations(expect: Expectations, seen: RunResult) -> list[ExpectationCheck]:
    """Return each expectation, and whether it is met."""
    return [
        *_check_tools(expect, seen),
        *_check_texts(expect, seen),
        *_check_length(expect, seen),
        *_check_cost(expect, seen),
        *_check_scores(expect, seen),
    ]


def _check_tools(expect: Expectations, seen: RunResult) -> Iterator[ExpectationCheck]:
    for name in expect.tools_called:
        called = ", ".join(sorted(seen.tools)) or "none"
        wrong = f"tool '{name}' was not called (called: {called})"
        yield _build_check(f"tool '{name}' is called", wrong, is_met=name in seen.tools)
    for name in expect.tools_not_called:
        is_met = name not in seen.tools
        yield _build_check(
            f"tool '{name}' is not called", f"tool '{name}' was called", is_met=is_met
        )


def _build_check(what: str, wrong: str, *, is_met: bool) -> ExpectationCheck:
    return ExpectationCheck(what, None if is_met else wrong)


def _check_texts(expect: Expectations, seen: RunResult) -> Iterator[ExpectationCheck]:
    for text in expect.contains:
        is_met = any(_contains(reply, text) for reply in seen.replies)
        yield _build_check(
            f"a reply contains '{text}'", f"no reply contains '{text}'", is_met=is_met
        )
    for text in expect.not_contains:
        where = (n for n, reply in enumerate(seen.replies, 1) if _contains(reply, text))
        number = next(where, None)
        yield _build_check(
            f"no reply contains '{text}'",
            f"reply {number} contains '{text}'",
            is_met=number is None,
        )


def _contains(reply: str, text: str) -> bool:
    return text.casefold() in reply.casefold()


def _check_length(expect: Expectations, seen: RunResult) -> Iterator[ExpectationCheck]:
    most, turns = expect.max_turns, len(seen.replies)
    if most is None:
        return
    wrong = f"it took {turns} turns (at most {most})"
    is_met = turns <= most
    if seen.stopped_because == "max_turns":
        is_met = False
        wrong = f"nobody had said the stop marker after {turns} turns (at most {most})"
    yield _build_check(f"it takes at most {most} turns", wrong, is_met=is_met)


def _check_cost(expect: Expectations, seen: RunResult) -> Iterator[ExpectationCheck]:
    most, cost = expect.max_cost_usd, seen.cost_micro_usd
    if most is None:
        return
    what = f"the replies cost at most ${most:g}"
    if cost is None:
        yield ExpectationCheck(
            what,
            "what the replies cost is not known: give the model's price under prices: "
            "in coulisse.yaml",
        )
        return
    wrong = f"the replies cost ${money.format_usd(cost)} (at most ${most:g})"
    yield _build_check(what, wrong, is_met=cost <= most * 1_000_000)


def _check_scores(expect: Expectations, seen: RunResult) -> Iterator[ExpectationCheck]:
    for name, least in expect.min_score.items():
        what = f"{name} is at least {least:g} in the mean"
        found = seen.scores.get(name)
        if found is None:
            judge = name.rpartition(".")[0]
            why = seen.unscored.get(judge, "no reply was judged by it")
            yield ExpectationCheck(what, f"{name} has no score: {why}")
            continue
        wrong = (
            f"{name} is {found.mean:.2f} in the mean of {found.count} scores (at "
            f"least {least:g})"
        )
        yield _build_check(what, wrong, is_met=found.mean >= least)
