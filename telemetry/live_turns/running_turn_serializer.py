"""A running turn in the form that viewers receive: small JSON without secrets.

Calls appear by name. Arguments and results appear only after the turn is stored, on its
page in the studio.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from core import trace
from core.text import redaction
from core.text.sanitization import truncate
from core.trace import Call, ModelCall, TracedToolCall
from telemetry.live_turns.active_turns import ActiveTurn
from telemetry.presentation.turn_serializers import format_time
from telemetry.storage import stored_text

MAX_MESSAGE_LENGTH = 200
"""Maximum characters of the user's message."""
MAX_ERROR_LENGTH = 300
MAX_CALLS = 50
"""Maximum tool calls per level, newest first; the others are only counted."""


def serialize_turn(turn: ActiveTurn) -> dict[str, Any]:
    return {
        "id": str(turn.turn_id),
        "object": "turn.running",
        "user_id": str(turn.user_id),
        "thread_id": turn.thread or None,
        "agent": turn.agent,
        "experiment": turn.experiment or None,
        "origin": turn.origin,
        "user_message": _short_line(turn.user_message, MAX_MESSAGE_LENGTH),
        "stream": turn.is_streamed,
        "started_at": format_time(turn.started_at),
        "current_step": current_step(turn.calls, turn.started_at),
        "model_calls": sum(1 for _ in trace.iter_model_calls(turn.calls)),
        **_tool_call_fields(turn.calls),
    }


def current_step(calls: Sequence[Call], since: datetime) -> dict[str, Any]:
    """Return what a turn, or an agent within it, waits for.

    `kind` is `start`, `model`, `tools`, or `end` when the last call has ended: the turn
    is being stored, or is about to call the model again.
    """
    if not calls:
        return _serialize_step("start", (), since)
    last = calls[-1]
    if isinstance(last, ModelCall):
        is_over = last.seconds is not None
        return _serialize_step(
            "end" if is_over else "model", [last.model], last.started_at
        )
    open_calls = [
        call for call in calls if isinstance(call, TracedToolCall) and _is_open(call)
    ]
    if not open_calls:
        return _serialize_step("end", [last.name], last.started_at)
    return _serialize_step(
        "tools", [call.name for call in open_calls], open_calls[0].started_at
    )


def _serialize_step(kind: str, names: Sequence[str], since: datetime) -> dict[str, Any]:
    return {
        "kind": kind,
        "names": [stored_text.truncate_name(name) for name in names[:MAX_CALLS]],
        "since": format_time(since),
    }


def _tool_call_fields(calls: Sequence[Call]) -> dict[str, Any]:
    tool_calls = [call for call in list(calls) if isinstance(call, TracedToolCall)]
    return {
        "tool_calls": len(tool_calls),
        "calls": list(_serialize_calls(tool_calls[-MAX_CALLS:])),
    }


def _serialize_calls(calls: Sequence[TracedToolCall]) -> Iterator[dict[str, Any]]:
    for call in calls:
        yield {
            "id": f"{id(call):x}",
            "name": stored_text.truncate_name(call.name),
            "kind": call.kind,
            "target": stored_text.truncate_name(call.target) or None,
            "started_at": format_time(call.started_at),
            "seconds": call.seconds,
            "state": _call_state(call),
            "error": None
            if call.error is None
            else _short_line(call.error, MAX_ERROR_LENGTH),
            "current_step": current_step(call.calls, call.started_at)
            if call.kind == "subagent" and _is_open(call)
            else None,
            **_tool_call_fields(call.calls),
        }


def _call_state(call: TracedToolCall) -> str:
    if call.error is not None:
        return "error"
    return "running" if _is_open(call) else "ok"


def _is_open(call: TracedToolCall) -> bool:
    # The server does not wait for a client's tool.
    return call.seconds is None and call.kind != "client"


def _short_line(text: str, max_length: int) -> str:
    """Return the beginning of a text as one line, without secrets."""
    # Longer than the result, because a secret may cross the end.
    beginning = stored_text.make_storable(text[: 4 * max_length])
    return truncate(" ".join(redaction.redact_all(beginning).split()), max_length)
