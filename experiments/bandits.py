"""Bandits: cached scores of their variants, and the choice of a variant."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from config.sections import Config
from core.ids import UserId
from database import database_executor
from database.errors import DatabaseDown
from experiments import assignment
from experiments.comparison import variant_scores
from experiments.config import ExperimentConfig
from experiments.exploration import ExplorationTracker
from judges.config import JUDGES
from judges.ratings.statistics import ScoreStats

CACHE_SECONDS = 5.0
"""Maximum age of the scores that route a request. Saves a query per request."""


@dataclass(frozen=True, slots=True)
class CachedScores:
    experiment: ExperimentConfig
    """The experiment at that time; an edited one does not match."""
    stats: Mapping[str, ScoreStats]
    expires_at: float
    """Monotonic time."""


_cached_scores: dict[str, CachedScores] = {}
_exploration: dict[str, ExplorationTracker] = {}


async def choose_variant(
    config: Config, experiment: ExperimentConfig, user_id: UserId
) -> str:
    """Return the agent that answers, and count the turn for it."""
    scores = await load_scores(experiment)
    tracker = _exploration.get(experiment.name)
    if tracker is None or tracker.metric != experiment.metric:
        tracker = _exploration[experiment.name] = ExplorationTracker(experiment.metric)
    silent = tracker.exhausted_variants(
        experiment, scores, _sampling_rate(config, experiment)
    )
    chosen = assignment.choose_variant(experiment, user_id, scores, silent)
    tracker.count_turn(chosen)
    return chosen


def _sampling_rate(config: Config, experiment: ExperimentConfig) -> float:
    judge = config.get(JUDGES).get(experiment.judge)
    return 0.0 if judge is None else judge.sampling_rate


async def load_scores(experiment: ExperimentConfig) -> Mapping[str, ScoreStats]:
    """Return the recent scores of a bandit's variants, by agent.

    One request at a time reads them again; the others use the cached scores. So do all
    requests while the database is unavailable.
    """
    name, now = experiment.name, time.monotonic()
    cached = _cached_scores.get(name)
    if cached is not None and cached.experiment is not experiment:
        cached = None
    if cached is not None:
        if now < cached.expires_at:
            return cached.stats
        _cached_scores[name] = CachedScores(
            experiment, cached.stats, now + CACHE_SECONDS
        )
    try:
        stats = await database_executor.run(variant_scores.recent_stats, experiment)
    except DatabaseDown:
        if cached is None:
            raise
        return cached.stats
    _cached_scores[name] = CachedScores(
        experiment, stats, time.monotonic() + CACHE_SECONDS
    )
    return stats


def clear_cache() -> None:
    """Clear the cached scores and the exploration counts of each bandit."""
    _cached_scores.clear()
    _exploration.clear()
