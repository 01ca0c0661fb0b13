"""Finding passages in what the process holds: the index of a server on SQLite."""

from collections.abc import Callable
from functools import partial

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from core.ids import UserId
from memory.recall.index import corpus_cache, relevance_scores, term_encoding
from memory.recall.index.large_corpus import Corpus, Row, place_of
from memory.recall.index.retrieval_types import (
    DEPTH,
    TINY,
    Among,
    Found,
    Legs,
    Question,
    Scores,
)
from memory.recall.index.small_corpus import Few

Mask = NDArray[np.bool_]

FEW = 500
"""Up to so many passages it is faster to rank all than to pick those found."""

CHOSEN = """
    SELECT p.id FROM memory_fact f JOIN memory_passage p ON p.fact_id = f.id
    WHERE f.user_id = %s
"""


class Index:
    """One user's passages as they are now; `anew` reads all of them again."""

    def __init__(self, user_id: UserId, *, anew: bool = False) -> None:
        self._user_id = user_id
        self._corpora = corpus_cache.of(user_id, anew=anew)

    def facts(self, question: Question, among: Among) -> Legs | Found:
        """Return the passages of facts that fit."""
        corpus = self._corpora.facts
        if isinstance(corpus, Few):
            return corpus.find(question, self._fact_exclusion(among))
        # A fact that is not active has no passage.
        mask = None if among == Among() else self._fact_mask(corpus, among)
        return _legs(corpus, question, mask, windows=False)

    def messages(
        self, question: Question, beyond: tuple[int, int] | None
    ) -> Legs | Found:
        """Return the passages of messages that fit, but of none from `beyond` on."""
        corpus = self._corpora.messages
        if isinstance(corpus, Few):
            return corpus.find(question, beyond and partial(_is_beyond, *beyond))
        mask = None if beyond is None else _not_beyond(corpus, *beyond)
        return _legs(corpus, question, mask, windows=True)

    def _fact_mask(self, corpus: Corpus, among: Among) -> Mask:
        return np.isin(corpus.ids, list(self._passage_ids(among)))

    def _fact_exclusion(self, among: Among) -> Callable[[Row], bool] | None:
        if among == Among():
            return None
        ids = self._passage_ids(among)
        return lambda row: row[0] not in ids

    def _passage_ids(self, among: Among) -> set[int]:
        wanted = among.column_values
        query = CHOSEN + "".join(f" AND f.{name} = %s" for name in wanted)
        with connection.cursor() as cursor:
            cursor.execute(query, [self._user_id.hex, *wanted.values()])
            return {number for (number,) in cursor.fetchall()}


def _is_beyond(thread_id: int, position: int, row: Row) -> bool:
    return row[1] == thread_id and row[2] is not None and row[2] >= position


def _not_beyond(corpus: Corpus, thread_id: int, position: int) -> Mask:
    places = corpus.places
    start, end = place_of(thread_id, position), place_of(thread_id + 1, 0)
    return (places < start) | (places >= end)


def _legs(
    corpus: Corpus, question: Question, mask: Mask | None, *, windows: bool
) -> Legs:
    if corpus.live_count < len(corpus.ids):
        mask = corpus.alive if mask is None else corpus.alive & mask
    similarity = _best(_near(corpus, question), mask)
    terms, window = _by_words(corpus, question, windows=windows)
    terms, window = _best(terms, mask), _best(window, mask)
    if len(corpus.ids) <= FEW:
        return Legs(corpus.ids, similarity, terms, window, corpus.questions)
    found = np.flatnonzero((similarity > 0) | (terms > 0) | (window > 0))
    return Legs(
        corpus.ids[found],
        similarity[found],
        terms[found],
        window[found],
        corpus.questions[found],
    )


def _near(corpus: Corpus, question: Question) -> Scores:
    if question.embedded is None:
        return np.zeros(len(corpus.ids), np.float32)
    cosines = relevance_scores.similarities(corpus, question.embedded)
    cosines[cosines < max(question.similarity_threshold, TINY)] = 0
    return cosines


def _by_words(
    corpus: Corpus, question: Question, *, windows: bool
) -> tuple[Scores, Scores]:
    nothing = np.zeros(len(corpus.ids), np.float32)
    if not question.terms or not corpus.live_count:
        return nothing, nothing
    hits = relevance_scores.find(corpus, term_encoding.hashes(question.terms))
    return relevance_scores.terms(corpus, hits), (
        relevance_scores.windows(corpus, hits) if windows else nothing
    )


def _best(leg: Scores, mask: Mask | None) -> Scores:
    """Return the leg with all but the best at zero."""
    if mask is not None:
        leg = leg * mask
    if len(leg) <= DEPTH or np.count_nonzero(leg) <= DEPTH:
        return leg
    best = np.argpartition(leg, -DEPTH)[-DEPTH:]
    kept = np.zeros_like(leg)
    kept[best] = leg[best]
    return kept
