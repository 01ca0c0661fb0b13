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
from numpy.typing import NDArray

from experiments.comparison import t_distribution

Cells = NDArray[np.float64]

INTERVAL_CONFIDENCE = 0.95
"""Of the interval."""
MIN_VARIANCE = 1 / 12
"""Of one score. Scores are whole points: this much a judge's rounding hides, so even
scores that are all alike do not make a mean certain."""
CELL_COUNT = 2_000
"""That a distribution is cut into, to add up its chances: they are right to about
0.0001."""


class ScoreStatistics(Protocol):
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
class MeanEstimate:
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


def estimate_means(
    agents: Sequence[str], scores: Mapping[str, ScoreStatistics]
) -> list[MeanEstimate]:
    """Return what scores tell of each variant, in the order of `agents`."""
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
    """Return how likely each has the highest mean; each must have two scores.

    The chance that a mean is in some place, times that all others are below it there,
    added up over all places.
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
    """What is believed of a mean, in cells.

    A place is told by the angle whose tangent it is, in `reach` from the middle: so far
    as the tails go, there are cells.
    """

    middle: float
    half_width: float
    edges: Cells
    weights: Cells
    """How likely it is in each cell."""

    @property
    def midpoints(self) -> Cells:
        """The middles of the cells."""
        angles = (self.edges[1:] + self.edges[:-1]) / 2
        places: Cells = self.middle + self.half_width * np.tan(angles)
        return places

    def probability_below(self, places: Cells) -> Cells:
        """Return how likely it is below each of these places."""
        angles = np.arctan((places - self.middle) / self.half_width)
        sums = np.concatenate(([0.0], np.cumsum(self.weights)))
        return np.interp(angles, self.edges, sums)


def _posterior(scores: ScoreStatistics) -> Posterior:
    freedom = scores.count - 1
    # By the angle, Student's t has the density of its cosine's power.
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
    """Return the variant that is the best with that confidence, if any is.

    None before every variant has so many scores, and where there is one variant alone.
    """
    if len(found) < 2 or any(each.count < min_samples for each in found):
        return None
    return next((each for each in found if (each.best or 0) >= confidence), None)
