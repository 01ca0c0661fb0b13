"""What was called in a turn, by whom, how long it took: a tree that grows as it runs.

A call is put in when it begins and completed when it ends, so what was broken off in
the middle is seen as that.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from core.events import Usage

ToolKind = Literal["mcp", "subagent", "skill", "memory", "task", "client", "unknown"]
"""Whose tool was called; `unknown` is one the model made up."""


def now() -> datetime:
    """Return the present instant, aware, in UTC."""
    return datetime.now(UTC)


CANCELLED = "broken off"
"""The error of an attempt whose caller left when it had been sent."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a provider."""

    endpoint: str
    """Which of the provider's endpoints; "" where it has one."""
    seconds: float
    """Until the reply began or failed."""
    error: str | None = None
    """What went wrong; None is the attempt that was answered."""

    @property
    def is_billed(self) -> bool:
        """Whether the provider had it to answer, and nothing of its own failed."""
        return self.error in (None, CANCELLED)


@dataclass(slots=True)
class ModelCall:
    """One call of a model."""

    agent: str
    provider: str
    """Its name under `providers:`."""
    model: str
    started_at: datetime = field(default_factory=now)
    seconds: float | None = None
    """None while it runs, and for ever when it was broken off."""
    usage: Usage | None = None
    """What it used, counted or estimated; None when it failed or was not sent."""
    finish_reason: str = ""
    error: str | None = None
    cost_micro_usd: int | None = None
    """None where it is not known: the price is not, or nobody says what was used."""
    attempts: list[Attempt] = field(default_factory=list)
    """Every request it took, in order."""
    _started: float = field(default_factory=time.perf_counter, repr=False)

    @property
    def is_billed(self) -> bool:
        """Whether a provider has the last request to answer, whatever comes of it."""
        return bool(self.attempts) and self.attempts[-1].is_billed

    def end(self, *, error: str | None = None) -> None:
        """Take the time and what went wrong; not called for what is broken off."""
        self.seconds = time.perf_counter() - self._started
        self.error = error


@dataclass(slots=True)
class TracedToolCall:
    """One call of a tool, and what was called within it."""

    name: str
    """What the model calls the tool."""
    kind: ToolKind
    arguments: str
    """JSON, as the model wrote it."""
    id: str = ""
    """The model's own id of the call."""
    target: str = ""
    """Which MCP server or subagent it goes to; else empty."""
    started_at: datetime = field(default_factory=now)
    seconds: float | None = None
    result: str | None = None
    """None while it runs, when it failed, or when the client left in the middle."""
    error: str | None = None
    calls: "list[Call]" = field(default_factory=list)
    """What a subagent called, in order of beginning."""
    _started: float = field(default_factory=time.perf_counter, repr=False)

    def end(self, *, result: str | None = None, error: str | None = None) -> None:
        """Take the time and what came of it."""
        self.seconds = time.perf_counter() - self._started
        self.result = result
        self.error = error


Call = ModelCall | TracedToolCall


def iter_model_calls(calls: list[Call]) -> Iterator[ModelCall]:
    """Yield the calls of models, at every depth."""
    for call in calls:
        if isinstance(call, ModelCall):
            yield call
        else:
            yield from iter_model_calls(call.calls)


def count_attempts(calls: list[Call]) -> int:
    """Return how many requests to providers all the model calls took together."""
    return sum(len(call.attempts) for call in iter_model_calls(calls))


def total_usage(calls: list[Call]) -> Usage:
    """Return what all the model calls used together."""
    total = Usage()
    for call in iter_model_calls(calls):
        if call.usage is not None:
            total += call.usage
    return total


def total_cost(calls: list[Call]) -> int | None:
    """Return what all the model calls cost together, in micro-dollars.

    None when any that used something has no known cost.
    """
    total = 0
    for call in iter_model_calls(calls):
        if call.cost_micro_usd is not None:
            total += call.cost_micro_usd
        elif call.usage is not None:
            return None
    return total
