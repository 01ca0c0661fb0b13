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


def get_corpora(user_id: UserId, *, reload: bool = False) -> CachedCorpora:
    """Return a user's current passages; `reload` reloads all of them."""
    version = _current_version(user_id)
    cached = None if reload else _cache.get(user_id)
    if cached is not None and cached.version == version:
        with _lock:
            if user_id in _cache:
                _cache.move_to_end(user_id)
        return cached
    corpora = _update(user_id, EMPTY if cached is None else cached, version)
    # Writes of an open transaction may be rolled back, so they are not cached.
    if not connection.in_atomic_block:
        _store(user_id, corpora)
    return corpora


def drop_user(user_id: UserId) -> None:
    global _cached_bytes
    with _lock:
        _cached_bytes -= _cache.pop(user_id, EMPTY).nbytes


def clear_cache() -> None:
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
    user_id: UserId, cached: CachedCorpora, version: CorpusVersion
) -> CachedCorpora:
    facts, messages = cached.facts, cached.messages
    if (
        cached.version.newest_id
        and cached.version.owner_version != version.owner_version
    ):
        ids = _fetch_ids(user_id, cached.version.newest_id)
        facts, messages = _keep_only(facts, ids), _keep_only(messages, ids)
    rows = _fetch_rows(user_id, cached.version.newest_id, version.newest_id)
    new_facts = [row for row in rows if row[THREAD_COLUMN] is None]
    new_messages = [row for row in rows if row[THREAD_COLUMN] is not None]
    return CachedCorpora(
        version, _append(facts, new_facts), _append(messages, new_messages)
    )


def _append(
    corpus: SmallCorpus | LargeCorpus, rows: list[PassageRow]
) -> SmallCorpus | LargeCorpus:
    if not rows:
        return corpus
    if isinstance(corpus, LargeCorpus):
        return large_corpus.append_rows(corpus, rows)
    if len(corpus.rows) + len(rows) <= small_corpus.MAX_PASSAGES:
        return small_corpus.append_rows(corpus, rows)
    return large_corpus.build_corpus([*corpus.rows, *rows])


def _keep_only(
    corpus: SmallCorpus | LargeCorpus, ids: np.ndarray
) -> SmallCorpus | LargeCorpus:
    if isinstance(corpus, LargeCorpus):
        return large_corpus.keep_only(corpus, ids)
    return small_corpus.keep_only(corpus, ids.tolist())


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


def _store(user_id: UserId, corpora: CachedCorpora) -> None:
    global _cached_bytes
    with _lock:
        replaced = _cache.pop(user_id, EMPTY)
        _cache[user_id] = corpora
        _cached_bytes += corpora.nbytes - replaced.nbytes
        while _cached_bytes > MAX_BYTES and len(_cache) > 1:
            _, dropped = _cache.popitem(last=False)
            _cached_bytes -= dropped.nbytes
