"""JSON forms of a turn for clients and operators.

Instants are ISO 8601 in UTC, durations seconds. An interrupted call has neither
duration nor result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from core.errors import public_text
from core.events import Usage
from core.trace import Call, ModelCall, TracedToolCall
from telemetry.types import TurnListItem, TurnRecord, TurnSummary

COMPLETION_PREFIX = "chatcmpl-"
"""Prefix of the id of a chat completion; the turn's id follows, in hexadecimal."""


def serialize_turn(record: TurnRecord) -> dict[str, Any]:
    """Return a turn as a `turn` object, with the tree of its calls."""
    return {
        **serialize_summary(record),
        "error": record.error,
        "recalled": list(record.recalled_fact_ids),
        "calls": list(serialize_calls(record.calls)),
    }


def serialize_list_item(turn: TurnListItem) -> dict[str, Any]:
    """Return a turn as a list item, with the number of its calls."""
    counts = {"model_calls": turn.model_calls, "tool_calls": turn.tool_calls}
    return {**serialize_summary(turn), "error": turn.error, **counts}


def without_error_details(item: dict[str, Any]) -> dict[str, Any]:
    """Return a turn or call without the details of errors, which are for operators."""
    item = {**item, "error": item["error"] and public_text(item["error"])}
    for name in ("calls", "attempts"):
        if name in item:
            item[name] = [without_error_details(each) for each in item[name]]
    return item


def serialize_summary(turn: TurnSummary) -> dict[str, Any]:
    """Return the public part of a turn, and its usage."""
    return {
        "id": str(turn.turn_id),
        "object": "turn",
        "completion_id": f"{COMPLETION_PREFIX}{turn.turn_id.hex}",
        "user_id": str(turn.user_id),
        "thread_id": turn.thread or None,
        "agent": turn.agent,
        "experiment": turn.experiment or None,
        "variant": turn.agent if turn.experiment else None,
        "origin": turn.origin,
        "user_message": turn.user_message,
        "stream": turn.is_streamed,
        "started_at": format_time(turn.started_at),
        "seconds": turn.seconds,
        "outcome": turn.outcome,
        "finish_reason": turn.finish_reason or None,
        "usage": asdict(turn.usage),
        "cost_usd": to_usd(turn.cost_micro_usd),
        "request_id": turn.request_id or None,
    }


def serialize_calls(calls: Sequence[Call]) -> Iterator[dict[str, Any]]:
    """Yield calls, each with the calls within it."""
    for call in calls:
        if isinstance(call, ModelCall):
            yield _serialize_model_call(call)
        else:
            yield _serialize_tool_call(call)


def _serialize_model_call(call: ModelCall) -> dict[str, Any]:
    return {
        "object": "model_call",
        "agent": call.agent,
        "provider": call.provider,
        "model": call.model,
        "started_at": format_time(call.started_at),
        "seconds": call.seconds,
        "finish_reason": call.finish_reason or None,
        "error": call.error,
        "usage": _serialize_usage(call.usage),
        "cost_usd": to_usd(call.cost_micro_usd),
        "attempts": [asdict(attempt) for attempt in call.attempts],
    }


def _serialize_tool_call(call: TracedToolCall) -> dict[str, Any]:
    return {
        "object": "tool_call",
        "id": call.id or None,
        "name": call.name,
        "kind": call.kind,
        "target": call.target or None,
        "arguments": call.arguments,
        "started_at": format_time(call.started_at),
        "seconds": call.seconds,
        "result": call.result,
        "error": call.error,
        "calls": list(serialize_calls(call.calls)),
    }


def _serialize_usage(usage: Usage | None) -> dict[str, Any] | None:
    return None if usage is None else asdict(usage)


def to_usd(micro_usd: int | None) -> float | None:
    """Return micro-dollars as dollars; None stays unknown."""
    return None if micro_usd is None else micro_usd / 1_000_000


def format_time(at: datetime) -> str:
    """Return an instant in the format of the API."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
