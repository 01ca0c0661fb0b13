"""How long a bandit waits for scores of an undersampled variant.

An undersampled variant is preferred until it has enough scores. Without a limit, one
that never gets any, for example because its judge fails, would take all traffic
forever.
"""

import logging
import math
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from experiments.config import ExperimentConfig
from judges.ratings.statistics import ScoreStats

TURNS_PER_SCORE = 5
"""Turns without a new score per required score."""
MIN_TURNS = 100
"""Minimum of that limit: the first scores take some time."""
MISSED_SCORES = 20
"""Number of missing scores that rules out chance."""
LOG_INTERVAL_SECONDS = 600.0
"""Minimum time between two log lines about one variant."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ScoreWait:
    """The turns of a variant since its last new score."""

    scores: int
    started_at: float
    """Monotonic time."""
    turns: int = 0


@dataclass(slots=True)
class ExplorationTracker:
    """The turns that one process gave a bandit's undersampled variants."""

    metric: str | None
    waits: dict[str, ScoreWait] = field(default_factory=dict)
    logged_at: dict[str, float] = field(default_factory=dict)

    def exhausted_variants(
        self,
        experiment: ExperimentConfig,
        scores: Mapping[str, ScoreStats],
        sampling_rate: float,
    ) -> Set[str]:
        """Return the variants that had enough turns without a new score.

        They get another chance once all those turns are out of the window.
        `sampling_rate` is the judge's.
        """
        now, limit = time.monotonic(), max_turns(experiment, sampling_rate)
        exhausted = set()
        for variant in experiment.agents:
            count = scores[variant].count if variant in scores else 0
            if count >= experiment.min_samples:
                self.waits.pop(variant, None)
                continue
            wait = self.waits.get(variant)
            if wait is None or _has_ended(wait, count, now, experiment):
                wait = self.waits[variant] = ScoreWait(count, now)
            wait.scores = count
            if wait.turns >= limit:
                exhausted.add(variant)
                self._log_exhausted(experiment, variant, wait.turns, now)
        return exhausted

    def count_turn(self, variant: str) -> None:
        """Count a turn for which a variant was chosen, if it lacks scores."""
        if variant in self.waits:
            self.waits[variant].turns += 1

    def _log_exhausted(
        self, experiment: ExperimentConfig, variant: str, turns: int, now: float
    ) -> None:
        logged_at = self.logged_at.get(variant)
        if logged_at is not None and now - logged_at < LOG_INTERVAL_SECONDS:
            return
        self.logged_at[variant] = now
        logger.warning(
            "experiment '%s': variant '%s' had %d turns without a new score for '%s' "
            "and is no longer preferred; check the sampling_rate of judge '%s' and "
            "`coulisse scores`",
            experiment.name,
            variant,
            turns,
            experiment.metric,
            experiment.judge,
        )


def max_turns(experiment: ExperimentConfig, sampling_rate: float) -> int:
    """Return how many turns in a row an undersampled variant gets."""
    by_samples = TURNS_PER_SCORE * experiment.min_samples
    by_rate = MISSED_SCORES / sampling_rate if sampling_rate else 0
    return math.ceil(max(by_samples, by_rate, MIN_TURNS))


def _has_ended(
    wait: ScoreWait, count: int, now: float, experiment: ExperimentConfig
) -> bool:
    """Return whether a score arrived, or the wait is older than the window."""
    is_old = now - wait.started_at > experiment.bandit_window_seconds
    return count > wait.scores or is_old
