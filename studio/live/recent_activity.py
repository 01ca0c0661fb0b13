"""What the live board shows of the tables: what ended lately, and the queue."""

from datetime import timedelta
from typing import Any

from tasks.reports import queue_snapshot
from telemetry.presentation import turn_serializers
from telemetry.storage import turn_store
from telemetry.types import Listed

MOST_TURNS = 30
MOST_SAID = 200
"""Characters of a text."""


def latest() -> dict[str, Any]:
    """Return the turns that ended last and the queue as it stands, as JSON has them."""
    turns, _ = turn_store.page(limit=MOST_TURNS)
    return {"finished": [_turn(turn) for turn in turns], "tasks": queue_snapshot.told()}


def _turn(turn: Listed) -> dict[str, Any]:
    ended_at = turn.started_at + timedelta(seconds=turn.seconds)
    told = {
        **turn_serializers.listed(turn),
        "ended_at": turn_serializers.instant(ended_at),
    }
    for name in ("user_message", "error"):
        if told[name] is not None:
            told[name] = " ".join(told[name][:MOST_SAID].split())
    return told
