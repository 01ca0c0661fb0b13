"""Registers running turns for the studio's live view, except incognito ones.

This costs a turn about a microsecond: its fields are read only when a viewer connects.
"""

from functools import partial
from typing import Any

from memory.recall import query_embedding
from telemetry.live_turns.active_turns import ACTIVE_TURNS, ActiveTurn
from turns.turn import Turn


def register(turn: Turn) -> None:
    """Show a turn in the live view, unless it is incognito."""
    if not turn.request.options.is_incognito:
        ACTIVE_TURNS.register(turn.request.turn_id, partial(_active_turn, turn))


def unregister(turn: Turn) -> None:
    """Remove a turn from the live view."""
    ACTIVE_TURNS.unregister(turn.request.turn_id)


def _active_turn(turn: Turn) -> ActiveTurn:
    return ActiveTurn(**initial_fields(turn), calls=turn.record)


def initial_fields(turn: Turn) -> dict[str, Any]:
    """Return the fields of `TurnHeader` that are known when a turn begins."""
    request = turn.request
    return {
        "turn_id": request.turn_id,
        "user_id": turn.user_id,
        "thread": request.options.thread,
        "agent": turn.agent.name,
        "experiment": turn.experiment,
        "origin": request.origin,
        "user_message": query_embedding.last_user_text(request.messages),
        "is_streamed": request.stream,
        "started_at": turn.started.at,
    }
