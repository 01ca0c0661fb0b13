"""The search index on SQLite: it searches the cached passages."""

from collections.abc import Callable
from functools import partial

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from core.ids import UserId
from memory.recall.index import corpus_cache, relevance_scores, term_encoding
from memory.recall.index.large_corpus import LargeCorpus, PassageRow, place_of
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

Mask = NDArray[np.bool_]

MAX_RANKED_WHOLE = 500
"""Up to this count, ranking all passages is faster than selecting the hits first."""

FACT_PASSAGES_SQL = """
    SELECT p.id FROM memory_fact f JOIN memory_passage p ON p.fact_id = f.id
    WHERE f.user_id = %s
"""


class NumpyIndex:
    """One user's current passages; `anew` reloads all of them."""

    def __init__(self, user_id: UserId, *, anew: bool = False) -> None:
        self._user_id = user_id
        self._corpora = corpus_cache.get_corpora(user_id, anew=anew)

    def facts(
        self, question: ParsedQuery, among: FactFilter
    ) -> RetrieverScores | SparseRetrieverScores:
        """Return the matching passages of facts."""
        corpus = self._corpora.facts
        if isinstance(corpus, SmallCorpus):
            return corpus.find(question, self._fact_exclusion(among))
        # Only active facts have a passage.
        mask = None if among == FactFilter() else self._fact_mask(corpus, among)
        return _score_passages(corpus, question, mask, windows=False)

    def messages(
        self, question: ParsedQuery, beyond: tuple[int, int] | None
    ) -> RetrieverScores | SparseRetrieverScores:
        """Return the matching passages of messages, without those from `beyond` on."""
        corpus = self._corpora.messages
        if isinstance(corpus, SmallCorpus):
            return corpus.find(question, beyond and partial(_is_beyond, *beyond))
        mask = None if beyond is None else _mask_before(corpus, *beyond)
        return _score_passages(corpus, question, mask, windows=True)

    def _fact_mask(self, corpus: LargeCorpus, among: FactFilter) -> Mask:
        return np.isin(corpus.ids, list(self._passage_ids(among)))

    def _fact_exclusion(self, among: FactFilter) -> Callable[[PassageRow], bool] | None:
        if among == FactFilter():
            return None
        ids = self._passage_ids(among)
        return lambda row: row[0] not in ids

    def _passage_ids(self, among: FactFilter) -> set[int]:
        wanted = among.column_values
        query = FACT_PASSAGES_SQL + "".join(f" AND f.{name} = %s" for name in wanted)
        with connection.cursor() as cursor:
            cursor.execute(query, [self._user_id.hex, *wanted.values()])
            return {number for (number,) in cursor.fetchall()}


def _is_beyond(thread_id: int, position: int, row: PassageRow) -> bool:
    return row[1] == thread_id and row[2] is not None and row[2] >= position


def _mask_before(corpus: LargeCorpus, thread_id: int, position: int) -> Mask:
    places = corpus.places
    start, end = place_of(thread_id, position), place_of(thread_id + 1, 0)
    return (places < start) | (places >= end)


def _score_passages(
    corpus: LargeCorpus, question: ParsedQuery, mask: Mask | None, *, windows: bool
) -> RetrieverScores:
    if corpus.live_count < len(corpus.ids):
        mask = corpus.alive if mask is None else corpus.alive & mask
    similarity = _keep_best(_similarity_scores(corpus, question), mask)
    terms, window = _bm25_scores(corpus, question, windows=windows)
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


def _similarity_scores(corpus: LargeCorpus, question: ParsedQuery) -> Scores:
    if question.embedded is None:
        return np.zeros(len(corpus.ids), np.float32)
    cosines = relevance_scores.cosine_similarities(corpus, question.embedded)
    cosines[cosines < max(question.similarity_threshold, MIN_SIMILARITY)] = 0
    return cosines


def _bm25_scores(
    corpus: LargeCorpus, question: ParsedQuery, *, windows: bool
) -> tuple[Scores, Scores]:
    nothing = np.zeros(len(corpus.ids), np.float32)
    if not question.terms or not corpus.live_count:
        return nothing, nothing
    hits = relevance_scores.find_terms(corpus, term_encoding.hash_terms(question.terms))
    return relevance_scores.bm25_scores(corpus, hits), (
        relevance_scores.window_bm25_scores(corpus, hits) if windows else nothing
    )


def _keep_best(leg: Scores, mask: Mask | None) -> Scores:
    """Return the scores with all but the best set to zero."""
    if mask is not None:
        leg = leg * mask
    if len(leg) <= RETRIEVAL_DEPTH or np.count_nonzero(leg) <= RETRIEVAL_DEPTH:
        return leg
    best = np.argpartition(leg, -RETRIEVAL_DEPTH)[-RETRIEVAL_DEPTH:]
    kept = np.zeros_like(leg)
    kept[best] = leg[best]
    return kept
