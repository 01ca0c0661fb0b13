"""The table rows of the live page: turns that ended recently, and the queue."""

from datetime import timedelta
from typing import Any

from studio.live import task_queue
from telemetry.models import Turn
from telemetry.presentation import turn_serializers
from telemetry.schemas import StudioListedTurn

MAX_TURNS = 30


def load_latest() -> dict[str, Any]:
    """Return the newest ended turns and the queue, as JSON types."""
    turns = Turn.objects.newest_first()[:MAX_TURNS]
    return {
        "finished": [_serialize_turn(turn) for turn in turns],
        "tasks": task_queue.read_queue().model_dump(mode="json"),
    }


def _serialize_turn(turn: Turn) -> dict[str, Any]:
    ended_at = turn.started_at + timedelta(seconds=turn.seconds)
    data = {
        **StudioListedTurn.serialize(turn),
        "ended_at": turn_serializers.format_time(ended_at),
    }
    for name in ("user_message", "error"):
        if data[name] is not None:
            data[name] = " ".join(data[name][: task_queue.MAX_TEXT_LENGTH].split())
    return data
