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

from experiments.assignment import VariantScores
from experiments.config import ExperimentConfig, split_metric

TURNS_PER_SCORE = 5
"""Turns without a new score per required score."""
MIN_TURNS = 100
"""Minimum of that limit: the first scores take some time."""
MISSED_SCORES = 20
"""Expected scores that are missing; with this many, chance is ruled out."""
LOG_INTERVAL_SECONDS = 600.0
"""Minimum time between two log lines about one variant."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ScoreWait:
    """The turns of a variant since its last new score."""

    scores: int
    begun_at: float
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
        scores: Mapping[str, VariantScores],
        sampling_rate: float,
    ) -> Set[str]:
        """Return the variants that had enough turns without a new score.

        They get another chance once all those turns are out of the window.
        `sampling_rate` is the judge's.
        """
        now, most = time.monotonic(), max_turns(experiment, sampling_rate)
        found = set()
        for arm in experiment.agents:
            count = scores[arm].count if arm in scores else 0
            if count >= experiment.min_samples:
                self.waits.pop(arm, None)
                continue
            wait = self.waits.get(arm)
            if wait is None or _has_ended(wait, count, now, experiment):
                wait = self.waits[arm] = ScoreWait(count, now)
            wait.scores = count
            if wait.turns >= most:
                found.add(arm)
                self._log_exhausted(experiment, arm, wait.turns, now)
        return found

    def count_turn(self, arm: str) -> None:
        """Count a turn for which a variant was chosen, if it lacks scores."""
        if arm in self.waits:
            self.waits[arm].turns += 1

    def _log_exhausted(
        self, experiment: ExperimentConfig, arm: str, turns: int, now: float
    ) -> None:
        if arm in self.logged_at and now - self.logged_at[arm] < LOG_INTERVAL_SECONDS:
            return
        self.logged_at[arm] = now
        judge, _ = split_metric(experiment.metric or "") or ("", "")
        logger.warning(
            "experiment '%s': variant '%s' took %d turns without a new score of '%s', "
            "so it is preferred no longer; see that judge '%s' scores: its "
            "sampling_rate, and manage.py scores",
            *(experiment.name, arm, turns, experiment.metric, judge),
        )


def max_turns(experiment: ExperimentConfig, sampling_rate: float) -> int:
    """Return how many turns in a row an undersampled variant gets."""
    drawn = MISSED_SCORES / sampling_rate if sampling_rate else 0
    wanted = TURNS_PER_SCORE * experiment.min_samples
    return math.ceil(max(wanted, MIN_TURNS, drawn))


def _has_ended(
    wait: ScoreWait, count: int, now: float, experiment: ExperimentConfig
) -> bool:
    """Return whether a score arrived, or the wait is older than the window."""
    is_old = now - wait.begun_at > experiment.bandit_window_seconds
    return count > wait.scores or is_old
