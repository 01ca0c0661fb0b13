"""Bayesian inference: the mean of each variant, and the probability to be the best.

A variant's scores are treated as a sample from one distribution of unknown mean and
variance. With a non-informative prior, the posterior of the mean after n scores is
Student's t around the sample mean, with n - 1 degrees of freedom and the scale s / √n;
its middle 95 % equal the frequentist confidence interval. Source: Gelman and others,
Bayesian Data Analysis, 3rd ed., 3.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import t_distribution

Cells = NDArray[np.float64]

INTERVAL_CONFIDENCE = 0.95
"""Of the interval."""
MIN_VARIANCE = 1 / 12
"""Minimum variance of one score. Scores are whole points, and a judge's rounding hides
this much: even equal scores do not make a mean certain.
"""
CELL_COUNT = 2_000
"""Cells of a discretized distribution. Probabilities are accurate to about 0.0001."""


class ScoreStatistics(Protocol):
    """Statistics of a variant's scores."""

    @property
    def count(self) -> int:
        """The number of scores."""

    @property
    def mean(self) -> float:
        """Their mean."""

    @property
    def variance(self) -> float:
        """Their sample variance."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """The estimated mean of one variant."""

    agent: str
    count: int
    mean: float | None = None
    """None without scores."""
    low: float | None = None
    """Lower bound of the interval; None with fewer than two scores."""
    high: float | None = None
    best: float | None = None
    """Probability that no other variant has a higher mean; None if any variant has
    fewer than two scores.
    """


def estimate_means(
    agents: Sequence[str], scores: Mapping[str, ScoreStatistics]
) -> list[MeanEstimate]:
    """Return the estimate of each variant, in the order of `agents`."""
    counts = [scores[agent].count if agent in scores else 0 for agent in agents]
    chances: Sequence[float | None] = [None] * len(agents)
    if min(counts, default=0) >= 2:
        chances = probabilities_best([scores[agent] for agent in agents])
    return [
        _estimate_mean(agent, scores[agent], chance)
        if count
        else MeanEstimate(agent, 0, best=chance)
        for agent, count, chance in zip(agents, counts, chances, strict=True)
    ]


def _estimate_mean(
    agent: str, scores: ScoreStatistics, best: float | None
) -> MeanEstimate:
    mean, count = scores.mean, scores.count
    if count < 2:
        return MeanEstimate(agent, count, mean, best=best)
    reach = t_distribution.quantile(
        (1 + INTERVAL_CONFIDENCE) / 2, count - 1
    ) * _standard_error(scores)
    return MeanEstimate(agent, count, mean, mean - reach, mean + reach, best)


def _standard_error(scores: ScoreStatistics) -> float:
    return math.sqrt(max(scores.variance, MIN_VARIANCE) / scores.count)


def probabilities_best(scores: Sequence[ScoreStatistics]) -> list[float]:
    """Return each one's probability of the highest mean; each needs two scores.

    The probability that a mean is in a cell, times that all others are below it, summed
    over all cells.
    """
    believed = [_posterior(each) for each in scores]
    found = [
        float(
            np.prod(
                [
                    other.probability_below(one.midpoints)
                    for other in believed
                    if other is not one
                ]
                + [one.weights],
                axis=0,
            ).sum()
        )
        for one in believed
    ]
    return [chance / sum(found) for chance in found]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The posterior distribution of a mean, in cells.

    A position is the angle whose tangent is the distance from the middle in units of
    `reach`, so that the cells cover the tails.
    """

    middle: float
    half_width: float
    edges: Cells
    weights: Cells
    """The probability of each cell."""

    @property
    def midpoints(self) -> Cells:
        """The midpoints of the cells."""
        angles = (self.edges[1:] + self.edges[:-1]) / 2
        places: Cells = self.middle + self.half_width * np.tan(angles)
        return places

    def probability_below(self, places: Cells) -> Cells:
        """Return the probability below each of these positions."""
        angles = np.arctan((places - self.middle) / self.half_width)
        sums = np.concatenate(([0.0], np.cumsum(self.weights)))
        return np.interp(angles, self.edges, sums)


def _posterior(scores: ScoreStatistics) -> Posterior:
    freedom = scores.count - 1
    # In terms of the angle, Student's t has the density of a power of its cosine.
    power = freedom - 1
    widest = math.acos(10 ** (-16 / power)) if power else math.pi / 2
    edges = np.linspace(-widest, widest, CELL_COUNT + 1)
    density = np.cos((edges[1:] + edges[:-1]) / 2) ** power
    return Posterior(
        scores.mean,
        _standard_error(scores) * math.sqrt(freedom),
        edges,
        density / density.sum(),
    )


def find_winner(
    found: Sequence[MeanEstimate], *, confidence: float, min_samples: int
) -> MeanEstimate | None:
    """Return the variant that is the best with that confidence, or None.

    None until every variant has `min_samples` scores, and for a single variant.
    """
    if len(found) < 2 or any(each.count < min_samples for each in found):
        return None
    return next((each for each in found if (each.best or 0) >= confidence), None)
