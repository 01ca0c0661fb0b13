"""What the live board shows of the tables: what ended lately, and the queue."""

from datetime import timedelta
from typing import Any

from tasks import standing
from telemetry import records, telling
from telemetry.known import Listed

MOST_TURNS = 30
MOST_SAID = 200
"""Characters of a text."""


def latest() -> dict[str, Any]:
    """Return the turns that ended last and the queue as it stands, as JSON has them."""
    turns, _ = records.page(limit=MOST_TURNS)
    return {"finished": [_turn(turn) for turn in turns], "tasks": standing.told()}


def _turn(turn: Listed) -> dict[str, Any]:
    ended_at = turn.started_at + timedelta(seconds=turn.seconds)
    told = {**telling.listed(turn), "ended_at": telling.instant(ended_at)}
    for name in ("user_message", "error"):
        if told[name] is not None:
            told[name] = " ".join(told[name][:MOST_SAID].split())
    return told
