"""The table rows of the live page: turns that ended recently, and the queue."""

from datetime import timedelta
from typing import Any

from tasks.reports import queue_snapshot
from telemetry.presentation import turn_serializers
from telemetry.storage import turn_store
from telemetry.types import TurnListItem

MAX_TURNS = 30
MAX_TEXT_LENGTH = 200
"""Characters of a text."""


def load_latest() -> dict[str, Any]:
    """Return the newest ended turns and the queue, as JSON types."""
    turns, _ = turn_store.page_turns(limit=MAX_TURNS)
    return {
        "finished": [_serialize_turn(turn) for turn in turns],
        "tasks": queue_snapshot.snapshot(),
    }


def _serialize_turn(turn: TurnListItem) -> dict[str, Any]:
    ended_at = turn.started_at + timedelta(seconds=turn.seconds)
    data = {
        **turn_serializers.serialize_list_item(turn),
        "ended_at": turn_serializers.format_time(ended_at),
    }
    for name in ("user_message", "error"):
        if data[name] is not None:
            data[name] = " ".join(data[name][:MAX_TEXT_LENGTH].split())
    return data
