"""The spans of a turn: one of the turn, and those of what it did, from its record."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from config.sections import Config
from core.errors import error_type
from core.messages import Message
from core.runtime import trace_context
from core.runtime.trace_context import TraceContext
from core.text import redaction
from core.trace import Call, ModelCall, TracedToolCall
from telemetry.tracing import attributes, exporter, spans
from telemetry.tracing.spans import Span, Value
from telemetry.types import Diagnostics, TurnRecord


def start(config: Config, *, is_incognito: bool) -> TraceContext | None:
    """Begin the span of a turn, and make it the current one; None without traces.

    It is within the span that a client's header names, or that of its task. Incognito
    turns leave no spans.
    """
    settings = spans.settings_of(config)
    if settings is None:
        return None
    parent = trace_context.current.get()
    if is_incognito:
        context = None
    elif parent is None:
        context = spans.start_trace(settings)
    else:
        context = replace(parent.child(), cause=parent.cause)
    trace_context.current.set(context)
    return context


def export(
    record: TurnRecord,
    context: TraceContext,
    config: Config,
    *,
    prompt: Sequence[Message] = (),
    reply: str = "",
    error: Exception | None = None,
) -> None:
    """Hand the spans of a turn that has ended to the exporter."""
    settings = spans.settings_of(config)
    if settings is None or not context.is_sampled:
        return
    found = _turn_attributes(record, error)
    if settings.content:
        found |= attributes.of_messages(prompt, reply)
    turn = Span(
        "turn",
        "server",
        context,
        record.started_at,
        record.seconds,
        found,
        has_failed=record.outcome == "error",
        error=redaction.redact_all(record.error or ""),
    )
    ended_at = record.started_at + timedelta(seconds=record.seconds)
    calls = of_calls(
        record.calls, context, config, ended_at=ended_at, content=settings.content
    )
    exporter.export(settings, [turn, *_retrieval(record, context), *calls])


def of_calls(
    calls: Sequence[Call],
    parent: TraceContext,
    config: Config,
    *,
    ended_at: datetime,
    content: bool,
) -> Iterator[Span]:
    """Yield the spans of calls, at every depth. Calls without an end were cancelled."""
    for call in calls:
        context = replace(call.span or parent.child(), parent_id=parent.span_id)
        seconds = call.seconds
        if seconds is None:
            seconds = max((ended_at - call.started_at).total_seconds(), 0.0)
        if isinstance(call, ModelCall):
            found = attributes.of_model_call(call, config)
            yield _call_span("llm_call", call, context, seconds, found)
        else:
            found = attributes.of_tool_call(call, content=content)
            yield _call_span("tool_call", call, context, seconds, found)
            yield from of_calls(
                call.calls, context, config, ended_at=ended_at, content=content
            )


def _call_span(
    name: str,
    call: ModelCall | TracedToolCall,
    context: TraceContext,
    seconds: float,
    found: dict[str, Value],
) -> Span:
    is_model = isinstance(call, ModelCall)
    # A tool's error may quote its arguments, which are content.
    error = redaction.redact_all(call.error or "") if is_model else ""
    return Span(
        name,
        "client" if is_model else "internal",
        context,
        call.started_at,
        seconds,
        found,
        has_failed=call.error is not None,
        error=error,
    )


def _turn_attributes(record: TurnRecord, error: Exception | None) -> dict[str, Value]:
    diagnostics = record.diagnostics
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": record.thread,
        **attributes.of_agent(record.agent),
        **attributes.of_usage(record.usage),
        "gen_ai.response.finish_reasons": [record.finish_reason]
        if record.finish_reason
        else None,
        "turn_id": str(record.turn_id),
        "user_id": str(record.user_id),
        "experiment": record.experiment,
        "origin": record.origin,
        "outcome": record.outcome,
        "request_id": record.request_id,
        "is_streamed": record.is_streamed,
        "prepare_seconds": diagnostics.prepare_seconds,
        "first_event_seconds": diagnostics.first_event_seconds,
        "cost_usd": attributes.usd(record.cost_micro_usd),
        "error.type": None if error is None else error_type(error),
    }


def _retrieval(record: TurnRecord, parent: TraceContext) -> Iterator[Span]:
    """Yield the span of the search for memories, if there was one.

    Its start is computed from the durations: the turn measures no instants.
    """
    found = record.diagnostics
    if found.recall == "none" or found.database_seconds is None:
        return
    seconds = (found.embedding_seconds or 0.0) + found.database_seconds
    before = max((found.prepare_seconds or seconds) - seconds, 0.0)
    yield Span(
        "retrieval",
        "internal",
        parent.child(),
        record.started_at + timedelta(seconds=before),
        seconds,
        _retrieval_attributes(found),
    )


def _retrieval_attributes(found: Diagnostics) -> dict[str, Value]:
    return {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "memory",
        "recall": found.recall,
        "corpus": found.corpus,
        "embedder": found.embedder,
        "facts": found.facts,
        "quotes": found.quotes,
        "embedding_seconds": found.embedding_seconds,
        "read_seconds": found.read_seconds,
    }
