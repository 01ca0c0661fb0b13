"""The W3C trace context of the current request or task, if traces are exported.

Source: https://www.w3.org/TR/trace-context/
"""

import os
import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

HEADER = "traceparent"
STATE_HEADER = "tracestate"
TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,200})?"
)
STATE = re.compile(r"[!-~][ -~]{0,511}")
MAX_HEADER_LENGTH = 512
SAMPLED = 1
"""The only flag of version 00."""


@dataclass(slots=True)
class TaskRecord:
    """The model calls of a background task, and why it failed."""

    calls: list[Any] = field(default_factory=list)
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span: of this process, or of the client that sent its header."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    is_sampled: bool
    """Whether its trace is exported."""
    parent_id: str = ""
    """The span that contains it; "" for the first one of a trace."""
    state: str = ""
    """The `tracestate` of other systems, which is only passed on."""
    cause: "TraceContext | None" = None
    """The span of another trace that caused this one."""
    record: TaskRecord | None = field(default=None, compare=False)
    """Of a task; a turn has a record of its own."""

    def child(self) -> "TraceContext":
        """Return a new span within this one."""
        return TraceContext(
            self.trace_id,
            os.urandom(8).hex(),
            self.is_sampled,
            parent_id=self.span_id,
            state=self.state,
        )

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of requests within this span."""
        headers = {HEADER: self.traceparent}
        return {**headers, STATE_HEADER: self.state} if self.state else headers


current: ContextVar[TraceContext | None] = ContextVar("trace_context", default=None)
"""None without traces. Tasks inherit it, and so do threads of the database."""


def new_child() -> TraceContext | None:
    """Return a new span within the current one; None without traces."""
    context = current.get()
    return None if context is None else context.child()


def current_traceparent() -> str:
    """Return the header of the current span; "" without traces."""
    context = current.get()
    return "" if context is None else context.traceparent


def note_failure(error: BaseException) -> None:
    """Record why the current task has failed, if it is traced."""
    context = current.get()
    if context is not None and context.record is not None:
        context.record.error = error


def headers() -> dict[str, str]:
    """Return the headers of requests within the current span; none without traces."""
    context = current.get()
    return {} if context is None else context.headers


def parse(traceparent: str, state: str = "") -> TraceContext | None:
    """Return the span that a header names; None if it is invalid."""
    found = TRACEPARENT.fullmatch(traceparent[:MAX_HEADER_LENGTH])
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if not (trace_id.strip("0") and span_id.strip("0")) or (more and version == "00"):
        return None
    is_sampled = bool(int(flags, 16) & SAMPLED)
    valid_state = state if STATE.fullmatch(state) else ""
    return TraceContext(trace_id, span_id, is_sampled, state=valid_state)
