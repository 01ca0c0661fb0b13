"""What this process holds of its users' passages, on SQLite.

Reading a user's vectors from the database for each question would cost far more than
comparing them, so the corpora of the users who asked last are kept, within
`MAX_BYTES`. One query before each use tells whether anything was written since, by
whichever process: new passages are read, and where some were removed the rest is kept.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.db import connection

from core.ids import UserId
from memory.recall.index import large_corpus, small_corpus
from memory.recall.index.large_corpus import THREAD, Corpus, Row
from memory.recall.index.small_corpus import Few

MAX_BYTES = 256 * 1024 * 1024
"""Held by one process; the user who asked longest ago goes first."""

STATE = """
    SELECT (SELECT max(id) FROM memory_passage WHERE user_id = %s),
        (SELECT id || '/' || version FROM memory_owner WHERE user_id = %s)
"""
ROWS = """
    SELECT id, thread_id, position, is_question, terms, embedder, vector
    FROM memory_passage WHERE user_id = %s AND id > %s AND id <= %s ORDER BY id
"""
IDS = "SELECT group_concat(id) FROM memory_passage WHERE user_id = %s AND id <= %s"
"""In one text, for a row each would take ten times as long."""


class State(NamedTuple):
    """What changes when a user's passages do."""

    newest_id: int
    """The highest id of a passage."""
    owner_version: str | None
    """Counts removals."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """One user's passages, as they were in one state."""

    version: State
    facts: Few | Corpus
    messages: Few | Corpus

    @property
    def nbytes(self) -> int:
        return self.facts.nbytes + self.messages.nbytes


EMPTY = Shelf(State(0, None), small_corpus.EMPTY, small_corpus.EMPTY)

_shelves: OrderedDict[UserId, Shelf] = OrderedDict()
_held = 0
_lock = threading.Lock()


def of(user_id: UserId, *, anew: bool = False) -> Shelf:
    """Return a user's passages as they are now; with `anew` read all of them again."""
    state = _state(user_id)
    held = None if anew else _shelves.get(user_id)
    if held is not None and held.version == state:
        with _lock:
            if user_id in _shelves:
                _shelves.move_to_end(user_id)
        return held
    shelf = _read(user_id, EMPTY if held is None else held, state)
    # What a transaction has written may never come to be.
    if not connection.in_atomic_block:
        _keep(user_id, shelf)
    return shelf


def forget(user_id: UserId) -> None:
    """Hold nothing of a user any more."""
    global _held
    with _lock:
        _held -= _shelves.pop(user_id, EMPTY).nbytes


def clear() -> None:
    """Forget everything held."""
    global _held
    with _lock:
        _shelves.clear()
        _held = 0


def _state(user_id: UserId) -> State:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [user_id.hex, user_id.hex])
        newest, owner = cursor.fetchone()
    return State(newest or 0, owner)


def _read(user_id: UserId, held: Shelf, state: State) -> Shelf:
    """Bring what is held up to date."""
    facts, messages = held.facts, held.messages
    if held.version.newest_id and held.version.owner_version != state.owner_version:
        left = _ids(user_id, held.version.newest_id)
        facts, messages = _without(facts, left), _without(messages, left)
    rows = _rows(user_id, held.version.newest_id, state.newest_id)
    new_facts = [row for row in rows if row[THREAD] is None]
    new_messages = [row for row in rows if row[THREAD] is not None]
    return Shelf(state, _with(facts, new_facts), _with(messages, new_messages))


def _with(held: Few | Corpus, rows: list[Row]) -> Few | Corpus:
    if not rows:
        return held
    if isinstance(held, Corpus):
        return large_corpus.appended(held, rows)
    if len(held.rows) + len(rows) <= small_corpus.MOST:
        return small_corpus.appended(held, rows)
    return large_corpus.build([*held.rows, *rows])


def _without(held: Few | Corpus, left: np.ndarray) -> Few | Corpus:
    if isinstance(held, Corpus):
        return large_corpus.without(held, left)
    return small_corpus.without(held, left.tolist())


def _rows(user_id: UserId, after: int, until: int) -> list[Row]:
    if until <= after:
        return []
    with connection.cursor() as cursor:
        cursor.execute(ROWS, [user_id.hex, after, until])
        rows: list[Row] = cursor.fetchall()
    return rows


def _ids(user_id: UserId, until: int) -> np.ndarray:
    with connection.cursor() as cursor:
        cursor.execute(IDS, [user_id.hex, until])
        (found,) = cursor.fetchone()
    return np.fromstring(found or "", np.int64, sep=",")


def _keep(user_id: UserId, shelf: Shelf) -> None:
    global _held
    with _lock:
        replaced = _shelves.pop(user_id, EMPTY)
        _shelves[user_id] = shelf
        _held += shelf.nbytes - replaced.nbytes
        while _held > MAX_BYTES and len(_shelves) > 1:
            _, dropped = _shelves.popitem(last=False)
            _held -= dropped.nbytes
