"""The transcript of each user's threads.

Plain SQL, because it is read and written on every turn: the ORM costs more than the
queries (see docs/performance.md). Every function takes the user it works for.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from core.ids import TurnId, UserId
from core.messages import Message
from memory.models import Message as MessageRow
from memory.models import Thread
from memory.transcript import Entry, extra_of, text_of, to_message

PAGE = 64
"""Rows read at a time; a context rarely needs more than one page."""

PAGE_OF = """
    SELECT m.position, m.tokens, m.role, m.text, m.extra
    FROM memory_thread t JOIN memory_message m ON m.thread_id = t.id
    WHERE t.user_id = %s AND t.name = %s AND {positions}
    ORDER BY m.position DESC
"""
NEWEST_PAGE = PAGE_OF.format(positions="m.position >= t.length - %s")
OLDER_PAGE = PAGE_OF.format(positions="m.position < %s AND m.position >= %s")
"""Bounded by position, not by LIMIT: PostgreSQL, which guesses that a thread is as long
as the average one, would read and sort all of a long one."""

CLAIM = """
    INSERT INTO memory_thread (user_id, name, length, created_at, updated_at)
    VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (user_id, name) DO UPDATE SET
        length = memory_thread.length + excluded.length,
        updated_at = excluded.updated_at
    RETURNING id, length
"""

INSERT = """
    INSERT INTO memory_message (thread_id, position, turn_id, role, text, extra,
        tokens, agent, finish_reason, importance, created_at) VALUES
"""
ROW = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

MAX_BYTES = 4 * 1024 * 1024
"""Pictures and files cost few tokens for their size; providers limit both."""

BATCH = 1000
"""Rows of one INSERT: databases limit the values of a statement."""


def read(
    user_id: UserId, thread: str, *, max_tokens: int, mid_exchange: bool = False
) -> list[Message]:
    """Return the newest messages of a thread that fit in `max_tokens`, oldest first.

    At most `MAX_BYTES` of them, for pictures weigh more than their tokens. Starts at
    a user message, so that no reply or tool result stands without its cause. With
    `mid_exchange`, when the caller is about to answer the last tool calls, everything
    back to the last user message is kept whatever it costs. Costs the same however
    many messages are stored.
    """
    kept: list[Message] = []
    for tokens, size, message in _running_totals(user_id, thread):
        if (tokens > max_tokens or size > MAX_BYTES) and not mid_exchange:
            break
        kept.append(message)
        mid_exchange = mid_exchange and message.role != "user"
    while kept and kept[-1].role != "user":
        kept.pop()
    kept.reverse()
    return kept


def _running_totals(user_id: UserId, thread: str) -> Iterator[tuple[int, int, Message]]:
    """Yield each message, newest first, with the tokens and the size up to it."""
    tokens_so_far = size_so_far = 0
    for _, tokens, role, text, extra in _newest_first(user_id, thread):
        tokens_so_far += tokens
        size_so_far += len(text) + len(extra)
        yield tokens_so_far, size_so_far, to_message(role, text, extra)


def _newest_first(user_id: UserId, thread: str) -> Iterator[tuple[Any, ...]]:
    key = _key(user_id)
    rows = _page(NEWEST_PAGE, [key, thread, PAGE])
    while rows:
        yield from rows
        before = rows[-1][0]
        if before == 0:
            return
        rows = _page(OLDER_PAGE, [key, thread, before, before - PAGE])


def _page(query: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def append(
    user_id: UserId, thread: str, turn_id: TurnId, entries: Sequence[Entry]
) -> None:
    """Store the messages of one turn at the end of a thread, all or none.

    The thread's row is claimed first, so the turns of several processes follow each
    other whole instead of interleaving.
    """
    if not entries:
        return
    now = datetime.now(UTC)
    with transaction.atomic():
        thread_id, length = _claim(user_id, thread, len(entries), now)
        first = length - len(entries)
        _insert(thread_id, first, turn_id, entries, now)


def _claim(user_id: UserId, thread: str, count: int, now: datetime) -> tuple[int, int]:
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [_key(user_id), thread, count, at, at])
        thread_id, length = cursor.fetchone()
    return thread_id, length


def _insert(
    thread_id: int,
    first: int,
    turn_id: TurnId,
    entries: Sequence[Entry],
    now: datetime,
) -> None:
    at = connection.ops.adapt_datetimefield_value(now)
    turn = MessageRow._meta.get_field("turn_id").get_db_prep_value(turn_id, connection)
    rows = [
        (
            *(thread_id, position, turn, entry.message.role),
            *(text_of(entry.message), extra_of(entry.message), entry.tokens),
            *(entry.agent, entry.finish_reason, entry.importance, at),
        )
        for position, entry in enumerate(entries, start=first)
    ]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            values = [value for row in batch for value in row]
            cursor.execute(INSERT + ", ".join([ROW] * len(batch)), values)


def _key(user_id: UserId) -> Any:
    return Thread._meta.get_field("user_id").get_db_prep_value(user_id, connection)
