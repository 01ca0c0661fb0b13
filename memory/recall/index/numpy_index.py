"""The search index on SQLite: it searches the cached passages."""

from collections.abc import Callable
from functools import partial

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from core.ids import UserId
from memory.recall.index import corpus_cache, relevance_scores, term_encoding
from memory.recall.index.large_corpus import LargeCorpus, PassageRow, message_key
from memory.recall.index.retrieval_types import (
    MIN_SIMILARITY,
    RETRIEVAL_DEPTH,
    FactFilter,
    ParsedQuery,
    RetrieverScores,
    Scores,
    SparseRetrieverScores,
)
from memory.recall.index.small_corpus import SmallCorpus
from telemetry.types import CorpusSize

Mask = NDArray[np.bool_]

MAX_RANKED_WHOLE = 500
"""Up to this count, ranking all passages is faster than selecting the hits first."""

SCOPE_PASSAGES_SQL = "SELECT id FROM memory_passage WHERE user_id = %s AND scope = %s"
FACT_PASSAGES_SQL = """
    SELECT p.id FROM memory_fact f JOIN memory_passage p ON p.fact_id = f.id
    WHERE f.user_id = %s
"""


class NumpyIndex:
    """One user's current passages; `reload` reloads all of them."""

    def __init__(self, user_id: UserId, *, reload: bool = False) -> None:
        self._user_id = user_id
        self._corpora = corpus_cache.get_corpora(user_id, reload=reload)

    @property
    def size(self) -> CorpusSize:
        corpora = (self._corpora.facts, self._corpora.messages)
        is_large = any(isinstance(each, LargeCorpus) for each in corpora)
        return "large" if is_large else "small"

    def facts(
        self, query: ParsedQuery, fact_filter: FactFilter
    ) -> RetrieverScores | SparseRetrieverScores:
        corpus = self._corpora.facts
        if isinstance(corpus, SmallCorpus):
            return corpus.find(query, self._fact_exclusion(fact_filter))
        # Only active facts have a passage.
        mask = (
            None
            if fact_filter == FactFilter()
            else self._fact_mask(corpus, fact_filter)
        )
        return _score_passages(corpus, query, mask, windows=False)

    def messages(
        self, query: ParsedQuery, cutoff: tuple[int, int] | None, scope: str | None
    ) -> RetrieverScores | SparseRetrieverScores:
        """Return the matching passages of messages, without those from `cutoff` on.

        With a scope, only those of it.
        """
        corpus = self._corpora.messages
        ids = None if scope is None else self._scope_ids(scope)
        if isinstance(corpus, SmallCorpus):
            return corpus.find(query, _message_exclusion(cutoff, ids))
        mask = None if cutoff is None else _mask_before(corpus, *cutoff)
        if ids is not None:
            in_scope = np.isin(corpus.ids, list(ids))
            mask = in_scope if mask is None else mask & in_scope
        return _score_passages(corpus, query, mask, windows=True)

    def _fact_mask(self, corpus: LargeCorpus, fact_filter: FactFilter) -> Mask:
        return np.isin(corpus.ids, list(self._passage_ids(fact_filter)))

    def _fact_exclusion(
        self, fact_filter: FactFilter
    ) -> Callable[[PassageRow], bool] | None:
        if fact_filter == FactFilter():
            return None
        ids = self._passage_ids(fact_filter)
        return lambda row: row[0] not in ids

    def _scope_ids(self, scope: str) -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute(SCOPE_PASSAGES_SQL, [self._user_id.hex, scope])
            return {number for (number,) in cursor.fetchall()}

    def _passage_ids(self, fact_filter: FactFilter) -> set[int]:
        columns = fact_filter.column_values
        sql = FACT_PASSAGES_SQL + "".join(f" AND f.{name} = %s" for name in columns)
        with connection.cursor() as cursor:
            cursor.execute(sql, [self._user_id.hex, *columns.values()])
            return {number for (number,) in cursor.fetchall()}


def _message_exclusion(
    cutoff: tuple[int, int] | None, ids: set[int] | None
) -> Callable[[PassageRow], bool] | None:
    is_beyond = cutoff and partial(_is_beyond, *cutoff)
    if ids is None:
        return is_beyond
    return lambda row: row[0] not in ids or bool(is_beyond and is_beyond(row))


def _is_beyond(thread_id: int, position: int, row: PassageRow) -> bool:
    return row[1] == thread_id and row[2] is not None and row[2] >= position


def _mask_before(corpus: LargeCorpus, thread_id: int, position: int) -> Mask:
    keys = corpus.message_keys
    start, end = message_key(thread_id, position), message_key(thread_id + 1, 0)
    return (keys < start) | (keys >= end)


def _score_passages(
    corpus: LargeCorpus, query: ParsedQuery, mask: Mask | None, *, windows: bool
) -> RetrieverScores:
    if corpus.live_count < len(corpus.ids):
        mask = corpus.alive if mask is None else corpus.alive & mask
    similarity = _keep_best(_similarity_scores(corpus, query), mask)
    terms, window = _bm25_scores(corpus, query, windows=windows)
    terms, window = _keep_best(terms, mask), _keep_best(window, mask)
    if len(corpus.ids) <= MAX_RANKED_WHOLE:
        return RetrieverScores(corpus.ids, similarity, terms, window, corpus.questions)
    found = np.flatnonzero((similarity > 0) | (terms > 0) | (window > 0))
    return RetrieverScores(
        corpus.ids[found],
        similarity[found],
        terms[found],
        window[found],
        corpus.questions[found],
    )


def _similarity_scores(corpus: LargeCorpus, query: ParsedQuery) -> Scores:
    if query.embedded is None:
        return np.zeros(len(corpus.ids), np.float32)
    cosines = relevance_scores.cosine_similarities(corpus, query.embedded)
    cosines[cosines < max(query.similarity_threshold, MIN_SIMILARITY)] = 0
    return cosines


def _bm25_scores(
    corpus: LargeCorpus, query: ParsedQuery, *, windows: bool
) -> tuple[Scores, Scores]:
    zeros = np.zeros(len(corpus.ids), np.float32)
    if not query.terms or not corpus.live_count:
        return zeros, zeros
    hits = relevance_scores.find_terms(corpus, term_encoding.hash_terms(query.terms))
    return relevance_scores.bm25_scores(corpus, hits), (
        relevance_scores.window_bm25_scores(corpus, hits) if windows else zeros
    )


def _keep_best(scores: Scores, mask: Mask | None) -> Scores:
    """Return the scores with all but the best set to zero."""
    if mask is not None:
        scores = scores * mask
    if len(scores) <= RETRIEVAL_DEPTH or np.count_nonzero(scores) <= RETRIEVAL_DEPTH:
        return scores
    best = np.argpartition(scores, -RETRIEVAL_DEPTH)[-RETRIEVAL_DEPTH:]
    best_scores = np.zeros_like(scores)
    best_scores[best] = scores[best]
    return best_scores
