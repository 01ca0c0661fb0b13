"""Metrics: recall, reciprocal rank and error rates."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

RETRIEVERS = ("lexical", "vector", "rrf", "weighted")

Verdict = Literal["kept both", "merged", "superseded"]


@dataclass(frozen=True)
class QuestionResult:
    """The result of one question with one retriever."""

    corpus: str
    """`facts` or `messages`."""
    embedder: str
    retriever: str
    kind: str
    language: str
    half: str
    ranks: list[int | None]
    """The rank of each answer, from 1; None if it was not found."""
    foreign: int
    """Results that belong to other users or are outdated; must be 0."""
    milliseconds: float


@dataclass(frozen=True)
class PairResult:
    """The result of two consecutive statements about one user."""

    pair: str
    language: str
    label: str
    embedder: str
    verdict: Verdict


ERRORS = {
    ("paraphrase", "kept both"): "stored twice",
    ("contradiction", "kept both"): "both left active",
    ("contradiction", "merged"): "merged, as if the same",
    ("different", "merged"): "lost by a merge",
    ("different", "superseded"): "lost by superseding",
}
"""The errors. A paraphrase that supersedes is correct: one fact stays active, with the
right content."""


def recall(results: Sequence[QuestionResult], k: int) -> float:
    """Return the share of answers in the first `k` results, averaged over questions."""
    return statistics.fmean(
        sum(rank is not None and rank <= k for rank in one.ranks) / len(one.ranks)
        for one in results
    )


def reciprocal_rank(results: Sequence[QuestionResult]) -> float:
    """Return the mean of 1 / rank of the first answer; 0 if none was found."""
    firsts = (min((r for r in one.ranks if r), default=None) for one in results)
    return statistics.fmean(1 / first if first else 0.0 for first in firsts)


def errors(pairs: Sequence[PairResult], label: str, error: str) -> str:
    """Return the number and share of pairs of a label with this error."""
    of_label = [one for one in pairs if one.label == label]
    count = sum(ERRORS.get((label, one.verdict)) == error for one in of_label)
    share = 100 * count / len(of_label) if of_label else 0.0
    return f"{count} of {len(of_label)} ({share:.0f} %)"
