"""One ranking of what several ways of looking found."""

from collections.abc import Mapping
from dataclasses import dataclass

from memory.known import Fusion, Score
from memory.legs import Legs

RRF_K = 60
"""As in Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", SIGIR 2009."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each way counts where the best of each is 1."""

    similarity: float
    terms: float
    window: float = 0.0
    question: float = 0.0
    """What a passage loses by only asking."""


FACTS = Weights(similarity=1.0, terms=0.5)
MESSAGES = Weights(similarity=1.0, terms=0.5, window=1.0, question=0.2)


def ranked(legs: Legs, weights: Weights, fusion: Fusion) -> list[tuple[int, Score]]:
    """Return passage ids with their scores, the best first, and newer ones first.

    `weighted` adds up the scores, each as a share of its way's best, so that a clear
    winner stays one; `rrf` adds up 1 / (60 + rank). What a way did not find gets
    nothing from it.
    """
    totals = _weighted(legs, weights) if fusion == "weighted" else _reciprocal(legs)
    order = sorted(totals.items(), key=_best_first)
    return [
        (
            number,
            Score(
                total,
                legs.similarity.get(number),
                legs.terms.get(number),
                legs.window.get(number),
            ),
        )
        for number, total in order
    ]


def _best_first(item: tuple[int, float]) -> tuple[float, int]:
    return -item[1], -item[0]


def _weighted(legs: Legs, weights: Weights) -> dict[int, float]:
    totals: dict[int, float] = {}
    for leg, weight in (
        (legs.similarity, weights.similarity),
        (legs.terms, weights.terms),
        (legs.window, weights.window),
    ):
        if leg:
            share = weight / max(leg.values())
            for number, score in leg.items():
                totals[number] = totals.get(number, 0.0) + score * share
    for number in legs.questions & totals.keys():
        totals[number] -= weights.question
    return totals


def _reciprocal(legs: Legs) -> dict[int, float]:
    totals: dict[int, float] = {}
    for leg in (legs.similarity, legs.terms, legs.window):
        for rank, number in enumerate(_order(leg), start=1):
            totals[number] = totals.get(number, 0.0) + 1 / (RRF_K + rank)
    return totals


def _order(leg: Mapping[int, float]) -> list[int]:
    return [number for number, _ in sorted(leg.items(), key=_best_first)]
