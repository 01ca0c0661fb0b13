"""A stored turn, found by its id: its messages, and some of those before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from core.ids import TurnId, UserId
from core.messages import Message
from memory.models import StoredMessage as Row
from memory.models import Thread
from memory.transcript.message_rows import message_from_row

# The words of the partial index: by others SQLite does not find it.
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
    """Where a turn's reply is stored."""

    thread_id: int
    position: int
    agent: str
    """Who replied."""
    finish_reason: str
    """How; `cancelled` or `error` where it was broken off."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """What was said."""

    earlier: Sequence[Message]
    """Before the turn, oldest first."""
    turn: Sequence[Message]
    """In the turn, before its reply."""
    reply: Message


def find_reply(
    user_id: UserId, turn_id: TurnId, *, is_locked: bool = False
) -> ReplyLocation | None:
    """Return where a turn of this user is stored, or None.

    With `is_locked`, in the caller's transaction, nobody erases the user until that
    ends.
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
    user_id: UserId, turn_id: TurnId, *, earlier: int, most: int
) -> PastTurn | None:
    """Return a turn of this user, or None.

    With up to `earlier` messages before it, and up to `most` of its own. Costs the same
    however long its thread is.
    """
    at = find_reply(user_id, turn_id)
    if at is None:
        return None
    first = at.position - earlier - most - 1
    with connection.cursor() as cursor:
        cursor.execute(MESSAGES_SQL, [at.thread_id, first, at.position])
        rows = cursor.fetchall()
    told = [(row[0] == rows[-1][0], message_from_row(*row[1:])) for row in rows]
    before = [message for is_own, message in told if not is_own]
    own = [message for is_own, message in told if is_own]
    return PastTurn(before[-earlier:], own[-most - 1 : -1], own[-1])


def _sql_user_id(user_id: UserId) -> Any:
    return _sql_value(Thread, "user_id", user_id)


def _sql_value(model: type[Any], field: str, value: Any) -> Any:
    return model._meta.get_field(field).get_db_prep_value(value, connection)
