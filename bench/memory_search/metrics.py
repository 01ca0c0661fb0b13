"""From places to shares: recall, reciprocal rank and error rates."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LEGS = ("lexical", "vector", "rrf", "weighted")

Verdict = Literal["kept both", "merged", "superseded"]


@dataclass(frozen=True)
class QuestionResult:
    """One question, as one leg answered it."""

    holds: str
    """Where it was asked: of `facts` or of `messages`."""
    embedder: str
    leg: str
    kind: str
    language: str
    half: str
    ranks: list[int | None]
    """The place of each answer, from 1; None was not found."""
    strangers: int
    """Found, but another user's, or no longer so. There must be none."""
    milliseconds: float


@dataclass(frozen=True)
class PairResult:
    """What became of two things said about one user, one after the other."""

    pair: str
    language: str
    label: str
    embedder: str
    verdict: Verdict


WRONG = {
    ("paraphrase", "kept both"): "stored twice",
    ("contradiction", "kept both"): "both left active",
    ("contradiction", "merged"): "merged, as if the same",
    ("different", "merged"): "lost by a merge",
    ("different", "superseded"): "lost by superseding",
}
"""What is wrong about a verdict. A paraphrase that supersedes is not: one fact stays
active, and it says the right thing."""


def recall(asked: Sequence[QuestionResult], k: int) -> float:
    """Return the share of answers among the first `k` found, a mean of questions."""
    return statistics.fmean(
        sum(rank is not None and rank <= k for rank in one.ranks) / len(one.ranks)
        for one in asked
    )


def reciprocal_rank(asked: Sequence[QuestionResult]) -> float:
    """Return the mean of 1 / the place of the first answer; 0 where none was found."""
    firsts = (min((r for r in one.ranks if r), default=None) for one in asked)
    return statistics.fmean(1 / first if first else 0.0 for first in firsts)


def errors(tried: Sequence[PairResult], label: str, wrong: str) -> str:
    """Return how many pairs of a label went wrong in this way, and their share."""
    of_label = [one for one in tried if one.label == label]
    count = sum(WRONG.get((label, one.verdict)) == wrong for one in of_label)
    share = 100 * count / len(of_label) if of_label else 0.0
    return f"{count} of {len(of_label)} ({share:.0f} %)"
