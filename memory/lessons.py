"""The turns there is something to learn from, as a queue of rows.

A row is the truth about a piece of work; whoever wakes a worker only saves it time.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from core.ids import TurnId, UserId
from memory.models import Lesson

INSERT = """
    INSERT INTO memory_lesson (user_id, thread_id, turn_id, first_position,
        end_position, agent, time_zone, state, attempts, due_at, error, reply,
        facts_found, facts_saved, created_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, 'queued', 0, %s, '', '', 0, 0, %s)
"""


@dataclass(frozen=True, slots=True)
class Study:
    """The wish to learn from a turn."""

    agent: str
    time_zone: str = ""
    """The user's, by its IANA name; "" is UTC."""


class Turn(NamedTuple):
    """A stored turn: its messages are `first <= position < end`."""

    user_id: UserId
    thread_id: int
    turn_id: TurnId
    first: int
    end: int


def add(turn: Turn, study: Study, now: datetime) -> None:
    """Put a turn down to be learnt from, in the caller's transaction."""
    at = connection.ops.adapt_datetimefield_value(now)
    user = Lesson._meta.get_field("user_id").get_db_prep_value(turn.user_id, connection)
    turn_id = Lesson._meta.get_field("turn_id").get_db_prep_value(
        turn.turn_id, connection
    )
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT,
            [
                *(user, turn.thread_id, turn_id, turn.first, turn.end),
                *(study.agent, study.time_zone, at, at),
            ],
        )
