"""How long a bandit waits for the scores of an arm it sends everybody to.

An arm that lacks scores is preferred to the others until it has them. One that never
gets any, whose judge is parked or fails say, would take all there is, for ever.
"""

import logging
import math
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from experiments.assignment import VariantScores
from experiments.config import ExperimentConfig, split_metric

TURNS_PER_SCORE = 5
"""Turns an arm may take for each score it must have, in a row without a new one."""
MIN_TURNS = 100
"""Fewer are taken before the first of them has been judged."""
MISSED_SCORES = 20
"""Scores that were due and did not come: it is no chance that none was drawn."""
LOG_INTERVAL_SECONDS = 600.0
"""Between two lines of the log on one arm."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ScoreWait:
    """What an arm was given since it last had a new score."""

    scores: int
    begun_at: float
    """By the clock that never jumps."""
    turns: int = 0


@dataclass(slots=True)
class ExplorationTracker:
    """What one process gave a bandit's arms while they lacked scores."""

    metric: str | None
    waits: dict[str, ScoreWait] = field(default_factory=dict)
    logged_at: dict[str, float] = field(default_factory=dict)

    def exhausted_variants(
        self,
        experiment: ExperimentConfig,
        scores: Mapping[str, VariantScores],
        sampling_rate: float,
    ) -> Set[str]:
        """Return the arms that had turns enough and no new score for any.

        They are given another chance once all they were given is out of the window.
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
        """Count a turn that an arm was chosen for, if it lacks scores."""
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
    """Return how many turns in a row an arm is given for want of scores."""
    drawn = MISSED_SCORES / sampling_rate if sampling_rate else 0
    wanted = TURNS_PER_SCORE * experiment.min_samples
    return math.ceil(max(wanted, MIN_TURNS, drawn))


def _has_ended(
    wait: ScoreWait, count: int, now: float, experiment: ExperimentConfig
) -> bool:
    """Return whether a score came, or the wait is as old as scores may be."""
    is_old = now - wait.begun_at > experiment.bandit_window_seconds
    return count > wait.scores or is_old
