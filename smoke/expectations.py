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


def unmet(expect: Expectations, seen: Seen) -> list[str]:
    """Return a sentence for each expectation that is not met."""
    return [
        *_tools(expect, seen),
        *_texts(expect, seen),
        *_length(expect, seen),
        *_cost(expect, seen),
        *_scores(expect, seen),
    ]


def _tools(expect: Expectations, seen: Seen) -> Iterator[str]:
    for name in expect.tools_called:
        if name not in seen.tools:
            called = ", ".join(sorted(seen.tools)) or "none"
            yield f"tool '{name}' was not called (called: {called})"
    for name in expect.tools_not_called:
        if name in seen.tools:
            yield f"tool '{name}' was called"


def _texts(expect: Expectations, seen: Seen) -> Iterator[str]:
    for text in expect.contains:
        if not any(_has(reply, text) for reply in seen.replies):
            yield f"no reply contains '{text}'"
    for text in expect.not_contains:
        for number, reply in enumerate(seen.replies, 1):
            if _has(reply, text):
                yield f"reply {number} contains '{text}'"
                break


def _has(reply: str, text: str) -> bool:
    return text.casefold() in reply.casefold()


def _length(expect: Expectations, seen: Seen) -> Iterator[str]:
    most, turns = expect.max_turns, len(seen.replies)
    if most is None:
        return
    if seen.stopped_because == "max_turns":
        yield f"nobody had said the stop marker after {turns} turns (at most {most})"
    elif turns > most:
        yield f"it took {turns} turns (at most {most})"


def _cost(expect: Expectations, seen: Seen) -> Iterator[str]:
    most, cost = expect.max_cost_usd, seen.cost_micro_usd
    if most is None:
        return
    if cost is None:
        yield (
            "what the replies cost is not known: give the model's price under prices: "
            "in coulisse.yaml"
        )
    elif cost > most * 1_000_000:
        yield f"the replies cost ${money.usd(cost)} (at most ${most:g})"


def _scores(expect: Expectations, seen: Seen) -> Iterator[str]:
    for name, least in expect.min_score.items():
        found = seen.scores.get(name)
        judge = name.rpartition(".")[0]
        if found is None:
            why = seen.unscored.get(judge, "no reply was judged by it")
            yield f"{name} has no score: {why}"
        elif found.mean < least:
            yield (
                f"{name} is {found.mean:.2f} in the mean of {found.count} scores (at "
                f"least {least:g})"
            )
