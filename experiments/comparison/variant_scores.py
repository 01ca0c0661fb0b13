"""The scores of an experiment's variants. For the database's threads."""

from datetime import UTC, datetime, timedelta

from experiments.config import ExperimentConfig, split_metric
from judges.ratings import scores
from judges.ratings.scores import Stats


def by(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> dict[str, Stats]:
    """Return what variants scored by a metric, as variants of this experiment.

    By agent; those without scores are left out.
    """
    judge, criterion = split_metric(metric) or ("", "")
    return scores.stats(
        *(judge, criterion, experiment.agents),
        since=since,
        experiment=experiment.name,
    )


def recent(experiment: ExperimentConfig) -> dict[str, Stats]:
    """Return what a bandit's variants scored lately by its metric."""
    return by(experiment, experiment.metric or "", since(experiment))


def since(experiment: ExperimentConfig) -> datetime | None:
    """Return from when scores count; None is from the first on."""
    if experiment.strategy != "bandit":
        return None
    return datetime.now(UTC) - timedelta(seconds=experiment.bandit_window_seconds)
