"""The transcripts of users' threads.

In plain SQL, because every turn reads and writes it: the ORM costs more than the
queries (see docs/performance.md). Every function takes the user and accesses only that
user's threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection, transaction

from core.ids import TurnId, UserId
from core.messages import Message, Role
from memory.extraction import job_queue
from memory.extraction.job_queue import ExtractionRequest, StoredTurn
from memory.models import StoredMessage as MessageRow
from memory.models import Thread
from memory.transcript import message_cache
from memory.transcript.message_cache import CachedMessage, CachedThread, ThreadKey
from memory.transcript.message_rows import (
    NewMessage,
    extra_json,
    message_from_row,
    stored_text,
)

PAGE_SIZE = 64
"""Rows read at a time; a context rarely needs more than one page."""

DEFAULT_CACHED_MESSAGES = 50
"""Cached messages of a thread, unless the caller sets another limit."""

THREAD_SQL = """
    SELECT id, length, summarized_until FROM memory_thread
    WHERE user_id = %s AND name = %s
"""
NEWEST_PAGE_SQL = """
    SELECT m.position, m.tokens, m.role, m.text, m.extra,
        t.id, t.length, t.summarized_until
    FROM memory_thread t JOIN memory_message m ON m.thread_id = t.id
    WHERE t.user_id = %s AND t.name = %s AND m.position >= t.length - %s
    ORDER BY m.position DESC
"""
"""Limited by position instead of LIMIT: PostgreSQL assumes that a thread has average
length, and would read and sort all of a long one."""
BETWEEN_SQL = """
    SELECT position, tokens, role, text, extra FROM memory_message
    WHERE thread_id = %s AND position >= %s AND position < %s
    ORDER BY position DESC
"""

RESERVE_POSITIONS_SQL = """
    INSERT INTO memory_thread (user_id, name, length, created_at, updated_at)
    VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (user_id, name) DO UPDATE SET
        length = memory_thread.length + excluded.length,
        updated_at = excluded.updated_at
    RETURNING id, length
"""

INSERT_SQL = """
    INSERT INTO memory_message (thread_id, position, turn_id, role, text, extra,
        tokens, agent, finish_reason, importance, created_at) VALUES
"""
ROW_SQL = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

MAX_BYTES = 4 * 1024 * 1024
"""The size of the messages in a prompt; images and files have few tokens for their
size, and providers limit both."""

BATCH_SIZE = 1000
"""Rows per INSERT: databases limit the parameters of a statement."""


@dataclass(frozen=True, slots=True)
class RecentMessages:
    """The newest messages of a thread, oldest first, and their first position."""

    messages: list[Message]
    thread_id: int | None = None
    """None while the thread is empty."""
    first_position: int = 0
    """The position of the oldest message; the next position if there are none."""


@dataclass(frozen=True, slots=True)
class ThreadHistory:
    """The current state of a thread that has messages."""

    cached: CachedThread
    """Its newest messages."""
    summarized_until: int
    """Summaries cover the messages before this position."""

    @property
    def thread_id(self) -> int:
        return self.cached.thread_id

    def recent(
        self, *, max_tokens: int, mid_exchange: bool = False, limit: int | None = None
    ) -> RecentMessages:
        """Return the newest messages that fit in `max_tokens`.

        Returns at most `limit` messages and `MAX_BYTES`, because images are larger than
        their tokens suggest. Starts at a user message, so that no reply or tool result
        lacks its cause. With `mid_exchange`, when the caller is about to answer the
        last tool calls, everything from the last user message on is included at any
        cost. Stops at summaries. The cost does not depend on the number of stored
        messages.
        """
        messages: list[CachedMessage] = []
        tokens = size = 0
        for cached in _iter_newest_first(self.cached, self.summarized_until):
            tokens += cached.tokens
            size += cached.size
            is_full = len(messages) == limit or tokens > max_tokens or size > MAX_BYTES
            if is_full and not mid_exchange:
                break
            messages.append(cached)
            mid_exchange = mid_exchange and cached.message.role != "user"
        while messages and messages[-1].message.role != "user":
            messages.pop()
        messages.reverse()
        first = messages[0].position if messages else self.cached.length
        return RecentMessages(
            [cached.message for cached in messages], self.thread_id, first
        )


def read_thread(
    user_id: UserId, thread: str, *, cap: int = DEFAULT_CACHED_MESSAGES
) -> ThreadHistory | None:
    """Return the current state of a thread, or None if it is empty.

    Its newest `cap` messages are cached.
    """
    key = (user_id, thread)
    cached = message_cache.MESSAGE_CACHE.get(key)
    if cached is None:
        return _load_thread(key, cap)
    rows = _fetch_rows(THREAD_SQL, [_sql_user_id(user_id), thread])
    if (
        not rows
        or rows[0][0] != cached.thread_id
        or rows[0][1] - cached.length > PAGE_SIZE
    ):
        message_cache.MESSAGE_CACHE.drop(key)
        return _load_thread(key, cap) if rows else None
    _, length, summarized_until = rows[0]
    if length != cached.length:
        cached = cached.extended(
            _load_between(cached.thread_id, cached.length, length), length, cap
        )
        message_cache.MESSAGE_CACHE.put(key, cached)
    return ThreadHistory(cached, summarized_until)


def _load_thread(key: ThreadKey, cap: int) -> ThreadHistory | None:
    rows = _fetch_rows(NEWEST_PAGE_SQL, [_sql_user_id(key[0]), key[1], PAGE_SIZE])
    if not rows:
        return None
    thread_id, length, summarized_until = rows[0][5:]
    page = CachedThread(
        thread_id, length, tuple(_cached_message(*row[:5]) for row in reversed(rows))
    )
    message_cache.MESSAGE_CACHE.put(key, page.extended((), length, cap))
    return ThreadHistory(page, summarized_until)


def _iter_newest_first(
    cached: CachedThread, summarized_until: int
) -> Iterator[CachedMessage]:
    """Yield a thread's messages, newest first, down to the summaries."""
    messages: Sequence[CachedMessage] = cached.messages
    before = cached.length
    while messages or before > summarized_until:
        for cached_message in reversed(messages):
            if cached_message.position < summarized_until:
                return
            yield cached_message
        before = messages[0].position if messages else before
        first = max(before - PAGE_SIZE, summarized_until)
        messages = (
            _load_between(cached.thread_id, first, before) if first < before else ()
        )
        if not messages:
            return


def _load_between(thread_id: int, first: int, end: int) -> list[CachedMessage]:
    rows = _fetch_rows(BETWEEN_SQL, [thread_id, first, end])
    return [_cached_message(*row) for row in reversed(rows)]


def _cached_message(
    position: int, tokens: int, role: Role, text: str, extra: str
) -> CachedMessage:
    message = message_from_row(role, text, extra)
    return CachedMessage(position, tokens, len(text) + len(extra), message)


def _fetch_rows(query: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def append_turn(
    user_id: UserId,
    thread: str,
    turn_id: TurnId,
    entries: Sequence[NewMessage],
    *,
    extraction: ExtractionRequest | None = None,
    cap: int = DEFAULT_CACHED_MESSAGES,
) -> None:
    """Append the messages of one turn to a thread, all or none.

    The thread's row is locked first, so that turns of several processes do not
    interleave. With `extraction`, an extraction job is added in the same transaction.
    """
    if not entries:
        return
    now = datetime.now(UTC)
    with transaction.atomic(savepoint=False):
        thread_id, length = _reserve_positions(user_id, thread, len(entries), now)
        first = length - len(entries)
        _insert(thread_id, first, turn_id, entries, now)
        if extraction is not None:
            turn = StoredTurn(user_id, thread_id, turn_id, first, length)
            job_queue.enqueue(turn, extraction, now)
        # On commit, because the caller may roll back.
        transaction.on_commit(
            partial(_extend_cache, user_id, thread, thread_id, first, entries, cap)
        )


def _extend_cache(
    user_id: UserId,
    thread: str,
    thread_id: int,
    first: int,
    entries: Sequence[NewMessage],
    cap: int,
) -> None:
    """Add the stored messages to the cache, if no others came in between."""
    cached = message_cache.MESSAGE_CACHE.get((user_id, thread))
    if cached is None or cached.thread_id != thread_id or cached.length != first:
        return
    messages = [
        _cached_message(
            position,
            entry.tokens,
            entry.message.role,
            stored_text(entry.message),
            extra_json(entry),
        )
        for position, entry in enumerate(entries, start=first)
    ]
    cached = cached.extended(messages, first + len(entries), cap)
    message_cache.MESSAGE_CACHE.put((user_id, thread), cached)


def _reserve_positions(
    user_id: UserId, thread: str, count: int, now: datetime
) -> tuple[int, int]:
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        cursor.execute(
            RESERVE_POSITIONS_SQL, [_sql_user_id(user_id), thread, count, at, at]
        )
        thread_id, length = cursor.fetchone()
    return thread_id, length


def _insert(
    thread_id: int,
    first: int,
    turn_id: TurnId,
    entries: Sequence[NewMessage],
    now: datetime,
) -> None:
    at = connection.ops.adapt_datetimefield_value(now)
    turn = MessageRow._meta.get_field("turn_id").get_db_prep_value(turn_id, connection)
    rows = [
        (
            thread_id,
            position,
            turn,
            entry.message.role,
            stored_text(entry.message),
            extra_json(entry),
            entry.tokens,
            entry.agent,
            entry.finish_reason,
            entry.importance,
            at,
        )
        for position, entry in enumerate(entries, start=first)
    ]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), BATCH_SIZE):
            batch = rows[start : start + BATCH_SIZE]
            values = [value for row in batch for value in row]
            cursor.execute(INSERT_SQL + ", ".join([ROW_SQL] * len(batch)), values)


def _sql_user_id(user_id: UserId) -> Any:
    return Thread._meta.get_field("user_id").get_db_prep_value(user_id, connection)
