"""What was expected of a run, and what of it is not so."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core import money
from smoke.config import Expectations


@dataclass(frozen=True, slots=True)
class Mean:
    """The scores of a run's replies by one criterion."""

    mean: float
    count: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run came to."""

    replies: Sequence[str]
    """The agent's."""
    tools: Collection[str]
    """What was called, at every depth."""
    stopped_because: str
    cost_micro_usd: int | None
    """Of the replies; None is not known."""
    scores: Mapping[str, Mean]
    """By `judge.criterion`."""
    unscored: Mapping[str, str]
    """Why judges have not scored all, by their names."""


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation of a run."""

    expectation: str
    """What must be so, as a sentence says it."""
    unmet: str | None = None
    """What is so instead; None is as expected."""


def unmet(expect: Expectations, seen: Seen) -> list[str]:
    """Return a sentence for each expectation that is not met."""
    found = (check.unmet for check in checks(expect, seen))
    return [sentence for sentence in found if sentence is not None]


def checks(expect: Expectations, seen: Seen) -> list[Check]:
    """Return each expectation, and whether it is met."""
    return [
        *_tools(expect, seen),
        *_texts(expect, seen),
        *_length(expect, seen),
        *_cost(expect, seen),
        *_scores(expect, seen),
    ]


def _tools(expect: Expectations, seen: Seen) -> Iterator[Check]:
    for name in expect.tools_called:
        called = ", ".join(sorted(seen.tools)) or "none"
        wrong = f"tool '{name}' was not called (called: {called})"
        yield _check(f"tool '{name}' is called", wrong, is_met=name in seen.tools)
    for name in expect.tools_not_called:
        is_met = name not in seen.tools
        yield _check(
            f"tool '{name}' is not called", f"tool '{name}' was called", is_met=is_met
        )


def _check(what: str, wrong: str, *, is_met: bool) -> Check:
    return Check(what, None if is_met else wrong)


def _texts(expect: Expectations, seen: Seen) -> Iterator[Check]:
    for text in expect.contains:
        is_met = any(_has(reply, text) for reply in seen.replies)
        yield _check(
            f"a reply contains '{text}'", f"no reply contains '{text}'", is_met=is_met
        )
    for text in expect.not_contains:
        where = (n for n, reply in enumerate(seen.replies, 1) if _has(reply, text))
        number = next(where, None)
        yield _check(
            f"no reply contains '{text}'",
            f"reply {number} contains '{text}'",
            is_met=number is None,
        )


def _has(reply: str, text: str) -> bool:
    return text.casefold() in reply.casefold()


def _length(expect: Expectations, seen: Seen) -> Iterator[Check]:
    most, turns = expect.max_turns, len(seen.replies)
    if most is None:
        return
    wrong = f"it took {turns} turns (at most {most})"
    is_met = turns <= most
    if seen.stopped_because == "max_turns":
        is_met = False
        wrong = f"nobody had said the stop marker after {turns} turns (at most {most})"
    yield _check(f"it takes at most {most} turns", wrong, is_met=is_met)


def _cost(expect: Expectations, seen: Seen) -> Iterator[Check]:
    most, cost = expect.max_cost_usd, seen.cost_micro_usd
    if most is None:
        return
    what = f"the replies cost at most ${most:g}"
    if cost is None:
        yield Check(
            what,
            "what the replies cost is not known: give the model's price under prices: "
            "in coulisse.yaml",
        )
        return
    wrong = f"the replies cost ${money.usd(cost)} (at most ${most:g})"
    yield _check(what, wrong, is_met=cost <= most * 1_000_000)


def _scores(expect: Expectations, seen: Seen) -> Iterator[Check]:
    for name, least in expect.min_score.items():
        what = f"{name} is at least {least:g} in the mean"
        found = seen.scores.get(name)
        if found is None:
            judge = name.rpartition(".")[0]
            why = seen.unscored.get(judge, "no reply was judged by it")
            yield Check(what, f"{name} has no score: {why}")
            continue
        wrong = (
            f"{name} is {found.mean:.2f} in the mean of {found.count} scores (at "
            f"least {least:g})"
        )
        yield _check(what, wrong, is_met=found.mean >= least)
