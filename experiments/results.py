"""What an experiment has shown: how each variant does, and which is likely the best.

A variant's scores are taken as drawn from one distribution of unknown mean and spread.
With nothing known beforehand, what is then believed of the mean after n scores is
Student's t around their own mean, with n - 1 degrees of freedom and the scale s / √n;
its middle 95 % are the interval that frequentists give, too. Source: Gelman and others,
Bayesian Data Analysis, 3rd ed., 3.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from experiments import student

CERTAINTY = 0.95
"""Of the interval."""
LEAST_VARIANCE = 1 / 12
"""Of one score. Scores are whole points: this much a judge's rounding hides, so even
scores that are all alike do not make a mean certain."""
DRAWS = 200_000
"""From what is believed of each mean; a probability is then right to about 0.002."""
SEED = 20_260_501
"""The same scores always tell the same."""


class Scores(Protocol):
    """A variant's scores, added up."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def mean(self) -> float:
        """Their mean."""

    @property
    def variance(self) -> float:
        """Their variance, as a sample has it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known of one variant's mean."""

    agent: str
    count: int
    mean: float | None = None
    """None where there is no score."""
    low: float | None = None
    """Where the interval begins; None with less than two scores."""
    high: float | None = None
    best: float | None = None
    """How likely no other variant has a higher mean; None where any variant has less
    than two scores."""


def estimates(agents: Sequence[str], scores: Mapping[str, Scores]) -> list[Estimate]:
    """Return what scores tell of each variant, in the order of `agents`."""
    counts = [scores[agent].count if agent in scores else 0 for agent in agents]
    chances: Sequence[float | None] = [None] * len(agents)
    if min(counts, default=0) >= 2:
        chances = chances_to_be_best([scores[agent] for agent in agents])
    return [
        _estimate(agent, scores[agent], chance)
        if count
        else Estimate(agent, 0, best=chance)
        for agent, count, chance in zip(agents, counts, chances, strict=True)
    ]


def _estimate(agent: str, scores: Scores, best: float | None) -> Estimate:
    mean, count = scores.mean, scores.count
    if count < 2:
        return Estimate(agent, count, mean, best=best)
    reach = student.quantile((1 + CERTAINTY) / 2, count - 1) * _scale(scores)
    return Estimate(agent, count, mean, mean - reach, mean + reach, best)


def _scale(scores: Scores) -> float:
    return math.sqrt(max(scores.variance, LEAST_VARIANCE) / scores.count)


def chances_to_be_best(scores: Sequence[Scores]) -> list[float]:
    """Return how likely each has the highest mean; each must have two scores.

    By drawing from what is believed of every mean, and counting who wins.
    """
    drawn = np.random.default_rng(SEED)
    means = np.stack(
        [
            each.mean + _scale(each) * drawn.standard_t(each.count - 1, DRAWS)
            for each in scores
        ]
    )
    wins = np.bincount(means.argmax(axis=0), minlength=len(scores))
    return [float(count) / DRAWS for count in wins]


def winner(
    found: Sequence[Estimate], *, confidence: float, min_samples: int
) -> Estimate | None:
    """Return the variant that is the best with that confidence, if any is.

    None before every variant has so many scores, and where there is one variant alone.
    """
    if len(found) < 2 or any(each.count < min_samples for each in found):
        return None
    return next((each for each in found if (each.best or 0) >= confidence), None)
