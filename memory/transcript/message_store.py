"""The newest messages of users' threads, cached, and the storage of turns.

Every function takes the user and accesses only that user's threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction

from core.ids import TurnId, UserId
from core.messages import Message, Role
from core.runtime import shared_clock
from memory.extraction import extraction_tasks
from memory.extraction.extraction_tasks import ExtractionRequest, TurnRange
from memory.models import Erasure, StoredMessage, Thread
from memory.models.owners import erasure_values
from memory.transcript import branches, message_cache
from memory.transcript.branches import Place, SentConversation
from memory.transcript.message_cache import CachedMessage, CachedThread, ThreadKey
from memory.transcript.message_rows import NewMessage, message_from_row
from memory.transcript.withholding import NO_FACTS, TouchedFacts

PAGE_SIZE = 64
"""Rows read at a time; a context rarely needs more than one page."""

DEFAULT_CACHED_MESSAGES = 50
"""Cached messages of a thread, unless the caller sets another limit."""

MAX_BYTES = 4 * 1024 * 1024
"""The size of the messages in a prompt; images and files have few tokens for their
size, and providers limit both."""


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
    is_in_session: bool = False
    """Whether a session of the thread is open."""
    resumes_at: int | None = None
    """The position before which older messages are read; None: that of the oldest
    cached one."""

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
        for cached in _iter_newest_first(self):
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
    state = Thread.objects.state(user_id, thread)
    if (
        state is None
        or state[0] != cached.thread_id
        or state[3] != cached.revision
        or state[1] - cached.length > PAGE_SIZE
    ):
        message_cache.MESSAGE_CACHE.drop(key)
        return _load_thread(key, cap) if state else None
    _, length, summarized_until, _, session_start = state
    if length != cached.length:
        cached = cached.extended(
            _load_between(cached.thread_id, cached.length, length), length, cap
        )
        message_cache.MESSAGE_CACHE.put(key, cached)
    return ThreadHistory(cached, summarized_until, session_start is not None)


def _load_thread(key: ThreadKey, cap: int) -> ThreadHistory | None:
    rows = StoredMessage.objects.newest(*key, count=PAGE_SIZE)
    if not rows:
        return None
    thread_id, length, summarized_until, revision, session_start, _ = rows[0][5:]
    messages = tuple(cached_message(*row[:5]) for row in rows if not row[-1])
    page = CachedThread(thread_id, revision, length, messages)
    message_cache.MESSAGE_CACHE.put(key, page.extended((), length, cap))
    return ThreadHistory(page, summarized_until, session_start is not None)


def _iter_newest_first(thread: ThreadHistory) -> Iterator[CachedMessage]:
    """Yield a thread's messages, newest first, down to the summaries.

    A page may be empty: messages of other branches are between those of this one.
    """
    messages: Sequence[CachedMessage] = thread.cached.messages
    first = messages[0].position if messages else thread.cached.length
    if thread.resumes_at is not None:
        first = thread.resumes_at
    while True:
        for message in reversed(messages):
            if message.position < thread.summarized_until:
                return
            yield message
        before, first = first, max(first - PAGE_SIZE, thread.summarized_until)
        if first >= before:
            return
        messages = _load_between(thread.thread_id, first, before)


def _load_between(thread_id: int, first: int, end: int) -> list[CachedMessage]:
    rows = StoredMessage.objects.between(thread_id, first, end)
    return [cached_message(*row) for row in rows]


def cached_message(
    position: int, tokens: int, role: Role, text: str, extra: str
) -> CachedMessage:
    message = message_from_row(role, text, extra)
    return CachedMessage(position, tokens, len(text) + len(extra), message)


def append_turn(
    user_id: UserId,
    thread: str,
    turn_id: TurnId,
    entries: Sequence[NewMessage],
    *,
    extraction: ExtractionRequest | None = None,
    cap: int = DEFAULT_CACHED_MESSAGES,
    sent: SentConversation | None = None,
    facts: TouchedFacts = NO_FACTS,
    begun_at: datetime | None = None,
) -> str:
    """Append the messages of one turn to a thread, all or none; return its name.

    Raises `UserErased` if the user was erased since `begun_at`, even without messages.

    With `sent`, the messages are compared with what is stored: known ones are not
    stored again, and others may begin a branch. With `extraction`, an extraction task
    is added in the same transaction, unless facts were forgotten in the turn; the turn
    begins a session, if `extraction` says so and none is open.
    """
    if not entries:
        Erasure.objects.refuse_erased(user_id, begun_at)
        return thread
    now = shared_clock.now()
    with transaction.atomic(savepoint=False):
        place = Place(thread)
        if facts is not NO_FACTS:
            # Until this is stored, no other transaction may forget or purge them.
            Thread.objects.lock_of_user(user_id)
        if sent is not None:
            if sent.follows is not None or sent.is_whole:
                # Until this is stored, no other turn may move or continue a match.
                Thread.objects.lock_of_user(user_id)
            if sent.follows is not None:
                place = branches.place_after(user_id, sent.follows)
            elif sent.is_whole:
                place = branches.find_place(user_id, thread, turn_id, sent)
            entries = branches.with_digests(user_id, entries, sent, place)
        if not entries:
            return place.thread
        thread_id, length = Thread.objects.reserve_positions(
            user_id,
            place.thread,
            len(entries),
            now,
            opens_session=extraction is not None and extraction.opens_session,
        )
        first = length - len(entries)
        parent = branches.make_current(user_id, place, thread_id, first)
        StoredMessage.objects.append(
            thread_id,
            first,
            turn_id,
            entries,
            now,
            parent=parent,
            unless_erased=erasure_values(user_id, begun_at),
        )
        new = first if sent is None else max(first, length - sent.new_rows)
        is_withheld = facts is not NO_FACTS and facts.apply(
            user_id, thread_id, new, length
        )
        if extraction is not None and not is_withheld:
            turn = TurnRange(user_id, thread_id, turn_id, new, length)
            extraction_tasks.enqueue(turn, extraction, now)
        if parent is None and not is_withheld:
            # On commit, because the caller may roll back.
            transaction.on_commit(
                partial(
                    _extend_cache, user_id, place.thread, thread_id, first, entries, cap
                )
            )
    return place.thread


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
        cached_message(
            position, entry.tokens, entry.message.role, entry.text, entry.extra
        )
        for position, entry in enumerate(entries, start=first)
    ]
    cached = cached.extended(messages, first + len(entries), cap)
    message_cache.MESSAGE_CACHE.put((user_id, thread), cached)
