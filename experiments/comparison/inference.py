"""Bayesian inference: the mean of each variant, and the probability to be the best.

A variant's scores are treated as a sample from one distribution of unknown mean and
variance. With a non-informative prior, the posterior of the mean after n scores is
Student's t around the sample mean, with n - 1 degrees of freedom and the scale s / √n;
its central 95 % equal the frequentist confidence interval. Source: Gelman and others,
Bayesian Data Analysis, 3rd ed., 3.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from judges.ratings.statistics import ScoreStats

Cells = NDArray[np.float64]

INTERVAL_CONFIDENCE = 0.95
"""Confidence level of the interval."""
MIN_VARIANCE = 1 / 12
"""Minimum variance of one score. Scores are whole points, and a judge's rounding hides
this much: even equal scores do not make a mean certain.
"""
CELL_COUNT = 2_000
"""Cells of a discretized distribution. Probabilities are accurate to about 0.0001."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
BISECTIONS = 80


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """The estimated mean of one variant."""

    agent: str
    count: int
    mean: float | None = None
    """None without scores."""
    low: Annotated[float | None, Field(description="Of the 95 % interval.")] = None
    """Lower bound of the interval; None with fewer than two scores."""
    high: Annotated[float | None, Field(description="Of the 95 % interval.")] = None
    best: Annotated[
        float | None, Field(description="The probability of being best.")
    ] = None
    """Probability that no other variant has a higher mean; None if any variant has
    fewer than two scores.
    """


def estimate_means(
    agents: Sequence[str], scores: Mapping[str, ScoreStats]
) -> list[MeanEstimate]:
    """Return the estimate of each variant, in the order of `agents`."""
    counts = [scores[agent].count if agent in scores else 0 for agent in agents]
    probabilities: Sequence[float | None] = [None] * len(agents)
    if min(counts, default=0) >= 2:
        probabilities = probabilities_best([scores[agent] for agent in agents])
    return [
        _estimate_mean(agent, scores[agent], probability)
        if count
        else MeanEstimate(agent, 0, best=probability)
        for agent, count, probability in zip(agents, counts, probabilities, strict=True)
    ]


def _estimate_mean(agent: str, scores: ScoreStats, best: float | None) -> MeanEstimate:
    mean, count = scores.mean, scores.count
    if count < 2:
        return MeanEstimate(agent, count, mean, best=best)
    t = quantile((1 + INTERVAL_CONFIDENCE) / 2, count - 1)
    margin = t * _standard_error(scores)
    return MeanEstimate(agent, count, mean, mean - margin, mean + margin, best)


def _standard_error(scores: ScoreStats) -> float:
    return math.sqrt(max(scores.variance, MIN_VARIANCE) / scores.count)


def probabilities_best(scores: Sequence[ScoreStats]) -> list[float]:
    """Return the probability of each mean to be the highest; each needs two scores.

    Sums, over all cells, the probability that a mean is in the cell times the
    probability that all other means are below it.
    """
    posteriors = [_posterior(each) for each in scores]
    probabilities = [
        float(
            np.prod(
                [
                    other.probability_below(posterior.midpoints)
                    for other in posteriors
                    if other is not posterior
                ]
                + [posterior.weights],
                axis=0,
            ).sum()
        )
        for posterior in posteriors
    ]
    return [each / sum(probabilities) for each in probabilities]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The posterior distribution of a mean, in cells.

    A position is the angle whose tangent is the distance from the center in units of
    `half_width`, so that the cells cover the tails.
    """

    center: float
    half_width: float
    edges: Cells
    weights: Cells
    """The probability of each cell."""

    @property
    def midpoints(self) -> Cells:
        angles = (self.edges[1:] + self.edges[:-1]) / 2
        points: Cells = self.center + self.half_width * np.tan(angles)
        return points

    def probability_below(self, points: Cells) -> Cells:
        angles = np.arctan((points - self.center) / self.half_width)
        sums = np.concatenate(([0.0], np.cumsum(self.weights)))
        return np.interp(angles, self.edges, sums)


def _posterior(scores: ScoreStats) -> Posterior:
    degrees_of_freedom = scores.count - 1
    # In terms of the angle, Student's t has the density of a power of its cosine.
    power = degrees_of_freedom - 1
    widest = math.acos(10 ** (-16 / power)) if power else math.pi / 2
    edges = np.linspace(-widest, widest, CELL_COUNT + 1)
    density = np.cos((edges[1:] + edges[:-1]) / 2) ** power
    return Posterior(
        scores.mean,
        _standard_error(scores) * math.sqrt(degrees_of_freedom),
        edges,
        density / density.sum(),
    )


def find_winner(
    estimates: Sequence[MeanEstimate], *, confidence: float, min_samples: int
) -> MeanEstimate | None:
    """Return the variant that is the best with that confidence, or None.

    None until every variant has `min_samples` scores, and for a single variant.
    """
    if len(estimates) < 2 or any(each.count < min_samples for each in estimates):
        return None
    return next((each for each in estimates if (each.best or 0) >= confidence), None)


@lru_cache(maxsize=4096)
def quantile(share: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t, of a share from 0.5 up to 1.

    Neither Python nor numpy has it.
    """
    low, high = 0.0, 1.0
    while cumulative_probability(high, degrees_of_freedom) < share:
        low, high = high, high * 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if cumulative_probability(middle, degrees_of_freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def cumulative_probability(value: float, degrees_of_freedom: int) -> float:
    """Return the cumulative probability of a value that is not negative.

    In terms of the angle whose tangent is t divided by the root of the degrees of
    freedom, the density is a power of its cosine, which a Gauss-Legendre rule
    integrates exactly but for rounding: to 1e-12 up to 1,000 degrees of freedom, and to
    1e-9 up to a million.
    """
    half = degrees_of_freedom / 2
    middle = math.atan(value / math.sqrt(degrees_of_freedom)) / 2
    cosines = np.cos(middle * (NODES + 1)) ** (degrees_of_freedom - 1)
    scale = math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    return float(0.5 + middle * (WEIGHTS @ cosines) * scale / math.sqrt(math.pi))
