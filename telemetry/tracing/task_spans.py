"""The span of one attempt of a background task, and those of its model calls."""

import asyncio
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from config import live
from core.errors import error_type
from core.runtime import trace_context
from core.runtime.trace_context import TaskRecord
from telemetry.tracing import exporter, spans, turn_spans
from telemetry.tracing.spans import Span, Value


@dataclass(frozen=True, slots=True)
class TracedTask:
    """What the span says of a task."""

    id: uuid.UUID
    kind: str
    agent: str
    origin: str
    user_id: uuid.UUID
    attempt: int
    traceparent: str
    """The span that created it; "" if unknown."""


@contextmanager
def recorded(task: TracedTask) -> Iterator[None]:
    """Trace an attempt, if traces are configured.

    It begins a trace of its own, linked to the span that created the task: minutes or
    days may be between them. Its model calls are spans, too, except for those of turns.
    """
    config = live.current()
    settings = spans.settings_of(config)
    if settings is None:
        yield
        return
    cause = trace_context.parse(task.traceparent)
    record = TaskRecord()
    context = replace(spans.start_trace(settings, cause), record=record)
    # It stays until the task of the event loop ends: what completes it belongs to it.
    trace_context.current.set(context)
    started_at, clock = datetime.now(UTC), time.perf_counter()
    try:
        yield
    except BaseException as exc:
        record.error = exc
        raise
    finally:
        if context.is_sampled:
            seconds = time.perf_counter() - clock
            span = Span(
                "task",
                "consumer",
                context,
                started_at,
                seconds,
                _attributes(task, record.error),
                has_failed=isinstance(record.error, Exception),
            )
            calls = turn_spans.of_calls(
                record.calls,
                context,
                config,
                ended_at=datetime.now(UTC),
                content=False,
            )
            exporter.export(settings, [span, *calls])


def _attributes(task: TracedTask, failure: BaseException | None) -> dict[str, Value]:
    outcome = "ok" if failure is None else "error"
    if isinstance(failure, asyncio.CancelledError):
        outcome = "cancelled"
    return {
        "gen_ai.agent.name": task.agent,
        "agent": task.agent,
        "task_id": str(task.id),
        "kind": task.kind,
        "origin": task.origin,
        "user_id": str(task.user_id),
        "attempt": task.attempt,
        "outcome": outcome,
        "error.type": None if failure is None else error_type(failure),
    }
