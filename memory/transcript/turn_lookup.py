"""Lookup of a stored turn by its id, with its messages and earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from core.ids import TurnId, UserId
from core.messages import Message
from memory.models import StoredMessage as Row
from memory.models import Thread
from memory.transcript.message_rows import message_from_row

# Literally the condition of the partial index: SQLite needs it to use the index.
REPLY_SQL = """
    SELECT m.thread_id, m.position, m.agent, m.finish_reason FROM memory_message m
    JOIN memory_thread t ON t.id = m.thread_id
    WHERE m.turn_id = %s AND m.finish_reason > '' AND t.user_id = %s
"""
MESSAGES_SQL = """
    SELECT turn_id, role, text, extra FROM memory_message
    WHERE thread_id = %s AND position > %s AND position <= %s ORDER BY position
"""


@dataclass(frozen=True, slots=True)
class ReplyLocation:
    """The location of a turn's reply."""

    thread_id: int
    position: int
    agent: str
    """The agent that replied."""
    finish_reason: str
    """How the reply ended; `cancelled` or `error` if it was interrupted."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """The messages of a turn and before it."""

    earlier: Sequence[Message]
    """The messages before the turn, oldest first."""
    turn: Sequence[Message]
    """The messages of the turn before its reply."""
    reply: Message


def find_reply(
    user_id: UserId, turn_id: TurnId, *, is_locked: bool = False
) -> ReplyLocation | None:
    """Return the location of a user's turn, or None.

    With `is_locked`, the user cannot be erased until the caller's transaction ends.
    """
    lock = " FOR SHARE OF t" if is_locked and connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(
            REPLY_SQL + lock,
            [_sql_value(Row, "turn_id", turn_id), _sql_user_id(user_id)],
        )
        found = cursor.fetchone()
    return ReplyLocation(*found) if found else None


def read_turn(
    user_id: UserId, turn_id: TurnId, *, earlier: int, max_messages: int
) -> PastTurn | None:
    """Return a turn of this user, or None.

    Includes up to `earlier` messages before it, and up to `max_messages` of its own.
    The cost does not depend on the length of the thread.
    """
    location = find_reply(user_id, turn_id)
    if location is None:
        return None
    first = location.position - earlier - max_messages - 1
    with connection.cursor() as cursor:
        cursor.execute(MESSAGES_SQL, [location.thread_id, first, location.position])
        rows = cursor.fetchall()
    pairs = [(row[0] == rows[-1][0], message_from_row(*row[1:])) for row in rows]
    before = [message for is_own, message in pairs if not is_own]
    own = [message for is_own, message in pairs if is_own]
    return PastTurn(before[-earlier:], own[-max_messages - 1 : -1], own[-1])


def _sql_user_id(user_id: UserId) -> Any:
    return _sql_value(Thread, "user_id", user_id)


def _sql_value(model: type[Any], field: str, value: Any) -> Any:
    return model._meta.get_field(field).get_db_prep_value(value, connection)
