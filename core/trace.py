"""The trace of a turn: a tree of its calls that grows as it runs.

A call is added when it begins and completed when it ends, so a cancelled call remains
visible as such.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from core.errors import error_type, recorded_text
from core.events import Usage
from core.runtime import trace_context
from core.runtime.shared_clock import now
from core.runtime.trace_context import TraceContext

ToolKind = Literal[
    "mcp", "subagent", "skill", "memory", "task", "client", "safety", "unknown"
]
"""The kind of the called tool; `safety` is a check of the turn, `unknown` a tool that
does not exist."""


CANCELLED = "cancelled"
"""The error of an attempt that was cancelled after the request was sent."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a provider."""

    endpoint: str
    """The name of the provider's endpoint; "" for a single one."""
    seconds: float
    """The time until the reply began or failed."""
    error: str | None = None
    """The error; None for the successful attempt."""

    @property
    def is_billed(self) -> bool:
        """Whether the provider received the request and did not fail itself."""
        return self.error in (None, CANCELLED)


@dataclass(slots=True)
class ModelCall:
    agent: str
    provider: str
    """The provider's name under `providers:`."""
    model: str
    started_at: datetime = field(default_factory=now)
    seconds: float | None = None
    """None while it runs, and permanently if it was cancelled."""
    usage: Usage | None = None
    """The usage, counted or estimated; None if it failed or was not sent."""
    finish_reason: str = ""
    error: str | None = None
    error_type: str = field(default="", compare=False)
    """The code or class of the error, which is not stored; "" if unknown."""
    cost_micro_usd: int | None = None
    """None if unknown: without a price or without a usage."""
    attempts: list[Attempt] = field(default_factory=list)
    """All requests of the call, in order."""
    is_continued: bool = False
    """Whether its reply broke off, and another call continued it."""
    span: TraceContext | None = field(default=None, repr=False, compare=False)
    """Its span; None without traces."""
    _started: float = field(default_factory=time.perf_counter, repr=False)

    @property
    def is_billed(self) -> bool:
        """Whether a provider received the last request, whatever its outcome."""
        return bool(self.attempts) and self.attempts[-1].is_billed

    def end(self, *, error: str | None = None, error_type: str = "") -> None:
        """Record the duration and the error; not called for a cancelled call."""
        self.seconds = time.perf_counter() - self._started
        self.error = error
        self.error_type = error_type


@dataclass(slots=True)
class TracedToolCall:
    """One tool call, and the calls within it."""

    name: str
    """The tool's name for the model."""
    kind: ToolKind
    arguments: str
    """JSON, verbatim from the model."""
    id: str = ""
    """The model's id of the call."""
    target: str = ""
    """The called MCP server or subagent; else empty."""
    started_at: datetime = field(default_factory=now)
    seconds: float | None = None
    result: str | None = None
    """None while it runs, after a failure, or if the client left before the end."""
    error: str | None = None
    error_type: str = field(default="", compare=False)
    """The code or class of the error, which is not stored; "" if unknown."""
    calls: "list[Call]" = field(default_factory=list)
    """The calls of a subagent, in order of their start."""
    span: TraceContext | None = field(default=None, repr=False, compare=False)
    """Its span; None without traces."""
    _started: float = field(default_factory=time.perf_counter, repr=False)

    def end(
        self,
        *,
        result: str | None = None,
        error: str | None = None,
        error_type: str = "",
    ) -> None:
        """Record the duration and the result or error."""
        self.seconds = time.perf_counter() - self._started
        self.result = result
        self.error = error
        self.error_type = error_type


Call = ModelCall | TracedToolCall


@contextmanager
def task_call(agent: str, provider: str, model: str) -> Iterator[ModelCall]:
    """Record a model call of a background task in its trace, if it has one.

    In a turn the call is in the turn's record, and not recorded here.
    """
    task = trace_context.current.get()
    call = ModelCall(agent, provider, model, span=task)
    if task is not None and task.record is not None:
        call.span = task.child()
        task.record.calls.append(call)
    try:
        yield call
    except Exception as exc:
        call.end(error=recorded_text(exc), error_type=error_type(exc))
        raise
    call.end()


def iter_model_calls(calls: list[Call]) -> Iterator[ModelCall]:
    """Yield all model calls, at every depth."""
    for call in calls:
        if isinstance(call, ModelCall):
            yield call
        else:
            yield from iter_model_calls(call.calls)


def count_attempts(calls: list[Call]) -> int:
    """Return the number of provider requests of all model calls."""
    return sum(len(call.attempts) for call in iter_model_calls(calls))


def count_rescues(calls: list[Call]) -> int:
    """Return how often a reply that broke off was continued."""
    return sum(call.is_continued for call in iter_model_calls(calls))


def total_usage(calls: list[Call]) -> Usage:
    """Return the total usage of all model calls."""
    total = Usage()
    for call in iter_model_calls(calls):
        if call.usage is not None:
            total += call.usage
    return total


def total_cost(calls: list[Call]) -> int | None:
    """Return the total cost of all model calls, in micro-dollars.

    None if any call with a usage has no known cost.
    """
    total = 0
    for call in iter_model_calls(calls):
        if call.cost_micro_usd is not None:
            total += call.cost_micro_usd
        elif call.usage is not None:
            return None
    return total
