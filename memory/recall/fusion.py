"""Fusion of the results of several retrievers into one ranking."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory.recall.index.retrieval_types import (
    RetrieverScores,
    Scores,
    SparseRetrieverScores,
)
from memory.recall.types import Fusion, SearchScore

RRF_K = 60
"""The constant of Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", SIGIR
2009."""


@dataclass(frozen=True, slots=True)
class RetrieverWeights:
    """The weight of each retriever, relative to a best score of 1."""

    similarity: float
    terms: float
    window: float = 0.0
    question: float = 0.0
    """The deduction for a passage that is only a question."""


FACT_WEIGHTS = RetrieverWeights(similarity=1.0, terms=0.5)
MESSAGE_WEIGHTS = RetrieverWeights(similarity=1.0, terms=0.5, window=1.0, question=0.2)


class Ranking(Protocol):
    """Search results, best first."""

    def __len__(self) -> int: ...

    def id_at(self, rank: int) -> int:
        """Return the passage at a rank, from 0."""

    def score_at(self, rank: int) -> SearchScore:
        """Return the scores that explain a rank."""


def fuse(
    found: RetrieverScores | SparseRetrieverScores,
    weights: RetrieverWeights,
    fusion: Fusion,
) -> Ranking:
    """Return one ranking, best first; ties are broken by recency.

    `weighted` adds up the scores, each as a share of its retriever's best, so that a
    clear winner stays first; `rrf` adds up 1 / (60 + rank). Retrievers that did not
    find a passage add nothing.
    """
    if isinstance(found, SparseRetrieverScores):
        return _SmallRanking(found, _sorted_totals(found, weights, fusion))
    return _LargeRanking(found, *_order_by_total(found, weights, fusion))


@dataclass(frozen=True, slots=True)
class _SmallRanking:
    found: SparseRetrieverScores
    totals: list[tuple[int, float]]

    def __len__(self) -> int:
        return len(self.totals)

    def id_at(self, rank: int) -> int:
        return self.totals[rank][0]

    def score_at(self, rank: int) -> SearchScore:
        number, total = self.totals[rank]
        by_retriever = (self.found.similarity, self.found.terms, self.found.window)
        return SearchScore(total, *(values.get(number) for values in by_retriever))


@dataclass(frozen=True, slots=True)
class _LargeRanking:
    """The ranking of many results, in arrays."""

    scores: RetrieverScores
    order: NDArray[np.int64]
    totals: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.order)

    def id_at(self, rank: int) -> int:
        return int(self.scores.ids[self.order[rank]])

    def score_at(self, rank: int) -> SearchScore:
        return build_score(self.scores, int(self.order[rank]), self.totals)


def _sorted_totals(
    found: SparseRetrieverScores, weights: RetrieverWeights, fusion: Fusion
) -> list[tuple[int, float]]:
    retrievers = (
        (found.similarity, weights.similarity),
        (found.terms, weights.terms),
        (found.window, weights.window),
    )
    totals: dict[int, float] = {}
    for values, weight in retrievers:
        best = max(values.values(), default=0.0)
        if fusion == "rrf":
            shares = _reciprocal_ranks(values)
        else:
            shares = {number: s * weight / best for number, s in values.items()}
        for number, share in shares.items():
            totals[number] = totals.get(number, 0.0) + share
    if fusion == "weighted":
        for number in found.questions:
            totals[number] -= weights.question
    return sorted(totals.items(), key=lambda pair: (-pair[1], -pair[0]))


def _order_by_total(
    scores: RetrieverScores, weights: RetrieverWeights, fusion: Fusion
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the indexes of the results, best first, and the totals of all.

    Ties are broken by recency.
    """
    totals = (
        _weighted_totals(scores, weights)
        if fusion == "weighted"
        else _reciprocal_rank_totals(scores)
    )
    found = (scores.similarity > 0) | (scores.terms > 0) | (scores.window > 0)
    totals[~found] = -np.inf
    order = _best_first(totals)[: np.count_nonzero(found)]
    return order, totals


def _reciprocal_ranks(scores: dict[int, float]) -> dict[int, float]:
    order = sorted(scores, key=lambda number: (-scores[number], -number))
    return {number: 1 / (RRF_K + rank) for rank, number in enumerate(order, start=1)}


def build_score(scores: RetrieverScores, index: int, totals: Scores) -> SearchScore:
    """Return the scores that explain a passage's rank."""
    return SearchScore(
        float(totals[index]),
        float(scores.similarity[index]) or None,
        float(scores.terms[index]) or None,
        float(scores.window[index]) or None,
    )


def _weighted_totals(
    scores: RetrieverScores, weights: RetrieverWeights
) -> NDArray[np.float64]:
    totals = np.where(scores.questions, -weights.question, 0.0)
    for values, weight in (
        (scores.similarity, weights.similarity),
        (scores.terms, weights.terms),
        (scores.window, weights.window),
    ):
        if weight and (best := values.max(initial=0)):
            totals += values * (weight / best)
    return totals


def _reciprocal_rank_totals(scores: RetrieverScores) -> NDArray[np.float64]:
    totals = np.zeros(len(scores.ids), np.float64)
    for values in (scores.similarity, scores.terms, scores.window):
        totals += (values > 0) / (RRF_K + _ranks(values))
    return totals


def _ranks(scores: Scores) -> NDArray[np.int64]:
    ranks = np.empty(len(scores), np.int64)
    ranks[_best_first(scores)] = np.arange(1, len(scores) + 1)
    return ranks


def _best_first(scores: Scores) -> NDArray[np.int64]:
    # A stable sort over the reversed scores puts the newest of equals first.
    return len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
