"""A turn that runs, as those who watch are told of it: JSON, small, without secrets.

What was called is named; arguments and results are not told before the turn is stored,
where the studio shows them.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from core import trace
from core.text import redaction
from core.trace import Call, ModelCall, ToolCall
from telemetry.live_turns.active_turns import Running
from telemetry.presentation.turn_serializers import instant
from telemetry.storage import stored_text

MAX_SAID = 200
"""Characters of what the user said."""
MAX_ERROR = 300
MAX_CALLS = 50
"""Tool calls of a level that are told, the newest; of the others there is a count."""


def told(turn: Running) -> dict[str, Any]:
    """Return a turn as it stands."""
    return {
        "id": str(turn.turn_id),
        "object": "turn.running",
        "user_id": str(turn.user_id),
        "thread_id": turn.thread or None,
        "agent": turn.agent,
        "experiment": turn.experiment or None,
        "origin": turn.origin,
        "user_message": _line(turn.user_message, MAX_SAID),
        "stream": turn.is_streamed,
        "started_at": instant(turn.started_at),
        "doing": doing(turn.calls, turn.started_at),
        "model_calls": sum(1 for _ in trace.model_calls(turn.calls)),
        **_tools(turn.calls),
    }


def doing(calls: Sequence[Call], since: datetime) -> dict[str, Any]:
    """Return what a turn, or an agent within it, waits for.

    `what` is `start`, `model`, `tools`, or `end` when the last call has ended: it has
    its answer and puts it away, or is about to ask again.
    """
    if not calls:
        return _doing("start", (), since)
    last = calls[-1]
    if isinstance(last, ModelCall):
        is_over = last.seconds is not None
        return _doing("end" if is_over else "model", [last.model], last.started_at)
    open_ones = [
        call for call in calls if isinstance(call, ToolCall) and _is_open(call)
    ]
    if not open_ones:
        return _doing("end", [last.name], last.started_at)
    return _doing("tools", [call.name for call in open_ones], open_ones[0].started_at)


def _doing(what: str, names: Sequence[str], since: datetime) -> dict[str, Any]:
    told = [stored_text.name(name) for name in names[:MAX_CALLS]]
    return {"what": what, "names": told, "since": instant(since)}


def _tools(calls: Sequence[Call]) -> dict[str, Any]:
    made = [call for call in list(calls) if isinstance(call, ToolCall)]
    return {"tool_calls": len(made), "calls": list(_told(made[-MAX_CALLS:]))}


def _told(calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
    for call in calls:
        yield {
            "id": f"{id(call):x}",
            "name": stored_text.name(call.name),
            "kind": call.kind,
            "target": stored_text.name(call.target) or None,
            "started_at": instant(call.started_at),
            "seconds": call.seconds,
            "state": _state(call),
            "error": None if call.error is None else _line(call.error, MAX_ERROR),
            "doing": doing(call.calls, call.started_at)
            if call.kind == "subagent" and _is_open(call)
            else None,
            **_tools(call.calls),
        }


def _state(call: ToolCall) -> str:
    if call.error is not None:
        return "error"
    return "running" if _is_open(call) else "ok"


def _is_open(call: ToolCall) -> bool:
    # Of a client's tool nobody here waits for the end.
    return call.seconds is None and call.kind != "client"


def _line(said: str, most: int) -> str:
    """Return the beginning of a text as one line, without secrets."""
    # More than is shown, for a secret may begin where that ends.
    line = " ".join(redaction.every(stored_text.storable(said[: 4 * most])).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
