"""The scores of an experiment's variants. Call it on database threads."""

from datetime import UTC, datetime, timedelta

from experiments.config import ExperimentConfig, split_metric
from judges.models import Score
from judges.ratings.statistics import ScoreStats


def variant_stats(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> dict[str, ScoreStats]:
    """Return the scores by a metric of replies as variants of this experiment.

    By agent; those without scores are left out.
    """
    judge, criterion = split_metric(metric) or ("", "")
    scores = Score.objects.filter(
        judge=judge,
        criterion=criterion,
        agent__in=experiment.agents,
        experiment=experiment.name,
    )
    return scores.filter_given(judged_at__gte=since).stats_by_agent()


def recent_stats(experiment: ExperimentConfig) -> dict[str, ScoreStats]:
    """Return the recent scores of a bandit's variants by its metric."""
    return variant_stats(experiment, experiment.metric or "", scores_since(experiment))


def scores_since(experiment: ExperimentConfig) -> datetime | None:
    """Return the time from which scores count; None counts all."""
    if experiment.strategy != "bandit":
        return None
    return datetime.now(UTC) - timedelta(seconds=experiment.bandit_window_seconds)
