"""The cache of users' passages in this process, on SQLite.

Loading a user's vectors for each query would cost far more than comparing them. So the
process caches the corpora of recently active users, up to `MAX_BYTES`. One query before
each use detects writes of any process: new passages are loaded, and removed ones are
dropped from the cached corpus.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.db import connection

from core.ids import UserId
from memory.recall.index import large_corpus, small_corpus
from memory.recall.index.large_corpus import THREAD_COLUMN, LargeCorpus, PassageRow
from memory.recall.index.small_corpus import SmallCorpus

MAX_BYTES = 256 * 1024 * 1024
"""The limit per process; the least recently used user is evicted first."""

VERSION_SQL = """
    SELECT (SELECT max(id) FROM memory_passage WHERE user_id = %s),
        (SELECT id || '/' || version FROM memory_owner WHERE user_id = %s)
"""
ROWS_SQL = """
    SELECT id, thread_id, position, is_question, terms, embedder, vector
    FROM memory_passage WHERE user_id = %s AND id > %s AND id <= %s ORDER BY id
"""
IDS_SQL = "SELECT group_concat(id) FROM memory_passage WHERE user_id = %s AND id <= %s"
"""All ids in one text value: a row for each would take ten times as long."""


class CorpusVersion(NamedTuple):
    """A version that changes when a user's passages change."""

    newest_id: int
    """The highest id of a passage."""
    owner_version: str | None
    """The owner's version, which counts removals."""


@dataclass(frozen=True, slots=True)
class CachedCorpora:
    """One user's passages in one version."""

    version: CorpusVersion
    facts: SmallCorpus | LargeCorpus
    messages: SmallCorpus | LargeCorpus

    @property
    def nbytes(self) -> int:
        return self.facts.nbytes + self.messages.nbytes


EMPTY = CachedCorpora(CorpusVersion(0, None), small_corpus.EMPTY, small_corpus.EMPTY)

_cache: OrderedDict[UserId, CachedCorpora] = OrderedDict()
_cached_bytes = 0
_lock = threading.Lock()


def get_corpora(user_id: UserId, *, anew: bool = False) -> CachedCorpora:
    """Return a user's current passages; `anew` reloads all of them."""
    state = _current_version(user_id)
    held = None if anew else _cache.get(user_id)
    if held is not None and held.version == state:
        with _lock:
            if user_id in _cache:
                _cache.move_to_end(user_id)
        return held
    shelf = _update(user_id, EMPTY if held is None else held, state)
    # Writes of an open transaction may be rolled back, so they are not cached.
    if not connection.in_atomic_block:
        _store(user_id, shelf)
    return shelf


def drop_user(user_id: UserId) -> None:
    """Remove a user from the cache."""
    global _cached_bytes
    with _lock:
        _cached_bytes -= _cache.pop(user_id, EMPTY).nbytes


def clear_cache() -> None:
    """Clear the cache."""
    global _cached_bytes
    with _lock:
        _cache.clear()
        _cached_bytes = 0


def _current_version(user_id: UserId) -> CorpusVersion:
    with connection.cursor() as cursor:
        cursor.execute(VERSION_SQL, [user_id.hex, user_id.hex])
        newest, owner = cursor.fetchone()
    return CorpusVersion(newest or 0, owner)


def _update(
    user_id: UserId, held: CachedCorpora, state: CorpusVersion
) -> CachedCorpora:
    """Update the cached passages."""
    facts, messages = held.facts, held.messages
    if held.version.newest_id and held.version.owner_version != state.owner_version:
        left = _fetch_ids(user_id, held.version.newest_id)
        facts, messages = _keep_only(facts, left), _keep_only(messages, left)
    rows = _fetch_rows(user_id, held.version.newest_id, state.newest_id)
    new_facts = [row for row in rows if row[THREAD_COLUMN] is None]
    new_messages = [row for row in rows if row[THREAD_COLUMN] is not None]
    return CachedCorpora(
        state, _append(facts, new_facts), _append(messages, new_messages)
    )


def _append(
    held: SmallCorpus | LargeCorpus, rows: list[PassageRow]
) -> SmallCorpus | LargeCorpus:
    if not rows:
        return held
    if isinstance(held, LargeCorpus):
        return large_corpus.append_rows(held, rows)
    if len(held.rows) + len(rows) <= small_corpus.MAX_PASSAGES:
        return small_corpus.append_rows(held, rows)
    return large_corpus.build_corpus([*held.rows, *rows])


def _keep_only(
    held: SmallCorpus | LargeCorpus, left: np.ndarray
) -> SmallCorpus | LargeCorpus:
    if isinstance(held, LargeCorpus):
        return large_corpus.keep_only(held, left)
    return small_corpus.keep_only(held, left.tolist())


def _fetch_rows(user_id: UserId, after: int, until: int) -> list[PassageRow]:
    if until <= after:
        return []
    with connection.cursor() as cursor:
        cursor.execute(ROWS_SQL, [user_id.hex, after, until])
        rows: list[PassageRow] = cursor.fetchall()
    return rows


def _fetch_ids(user_id: UserId, until: int) -> np.ndarray:
    with connection.cursor() as cursor:
        cursor.execute(IDS_SQL, [user_id.hex, until])
        (found,) = cursor.fetchone()
    return np.fromstring(found or "", np.int64, sep=",")


def _store(user_id: UserId, shelf: CachedCorpora) -> None:
    global _cached_bytes
    with _lock:
        replaced = _cache.pop(user_id, EMPTY)
        _cache[user_id] = shelf
        _cached_bytes += shelf.nbytes - replaced.nbytes
        while _cached_bytes > MAX_BYTES and len(_cache) > 1:
            _, dropped = _cache.popitem(last=False)
            _cached_bytes -= dropped.nbytes
