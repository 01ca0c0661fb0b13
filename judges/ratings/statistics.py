"""Values of the statistics of scores."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ScoreStats:
    count: int
    total: float
    sum_of_squares: float

    @property
    def mean(self) -> float:
        """The mean; 0 without scores."""
        return self.total / self.count if self.count else 0.0

    @property
    def variance(self) -> float:
        """The sample variance; 0 with fewer than two scores."""
        if self.count < 2:
            return 0.0
        # Whole numbers from 0 to 10, so the difference is exact.
        deviation = self.sum_of_squares - self.total * self.total / self.count
        return max(deviation, 0.0) / (self.count - 1)

    @property
    def standard_deviation(self) -> float:
        """The sample standard deviation; 0 with fewer than two scores."""
        return math.sqrt(self.variance)


NO_SCORES = ScoreStats(0, 0, 0)


@dataclass(frozen=True, slots=True)
class VariantScoreQuery:
    """The experiment and metric whose scores are requested."""

    experiment: str
    judge: str
    criterion: str
    agents: Collection[str]
    since: datetime | None = None


def score_tone(value: float | None) -> str:
    """Return the CSS class of a score from 0 to 10: good, middling, bad."""
    if value is None:
        return ""
    return "is-good" if value >= 7 else "is-warn" if value >= 4 else "is-bad"
