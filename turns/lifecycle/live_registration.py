"""Turns that run are shown to who watches the studio, except those that leave no trace.

It costs a turn about a microsecond: nothing is read before somebody watches.
"""

from functools import partial
from typing import Any

from memory.recall import query_embedding
from telemetry.live_turns.active_turns import BOARD, Running
from turns.turn import Turn


def begin(turn: Turn) -> None:
    """Show a turn from now on, unless it is incognito."""
    if not turn.request.options.is_incognito:
        BOARD.register(turn.request.turn_id, partial(_look, turn))


def end(turn: Turn) -> None:
    """Show it no more."""
    BOARD.unregister(turn.request.turn_id)


def _look(turn: Turn) -> Running:
    return Running(**beginning(turn), calls=turn.record)


def beginning(turn: Turn) -> dict[str, Any]:
    """Return what is known of a turn from its beginning, by the fields of `Started`."""
    request = turn.request
    return {
        "turn_id": request.turn_id,
        "user_id": turn.user_id,
        "thread": request.options.thread,
        "agent": turn.agent.name,
        "experiment": turn.experiment,
        "origin": request.origin,
        "user_message": query_embedding.last_said(request.messages),
        "is_streamed": request.stream,
        "started_at": turn.started.at,
    }
