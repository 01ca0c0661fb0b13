"""How an experiment goes: who got how much, who scored how well, who has won.

Reads tables: for commands, jobs and the database's threads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.sections import Config
from experiments import choosing, results
from experiments.choosing import Standing
from experiments.config import ExperimentConfig
from experiments.results import Estimate
from judges.scores import Stats
from telemetry import traffic
from telemetry.traffic import Traffic
from turns import experiment_metrics, experiment_scores


@dataclass(frozen=True, slots=True)
class Comparison:
    """The variants by one metric."""

    metric: str
    estimates: Sequence[Estimate]

    @property
    def ahead(self) -> Estimate | None:
        """Who is likeliest the best; None where too little is known."""
        known = [each for each in self.estimates if each.best is not None]
        return max(known, key=lambda each: each.best or 0, default=None)


@dataclass(frozen=True, slots=True)
class Report:
    """All there is to tell of an experiment."""

    experiment: ExperimentConfig
    since: datetime | None
    """From when turns and scores count; None is from the first on."""
    traffic: Mapping[str, Traffic]
    comparisons: Sequence[Comparison]
    deciding: str | None
    """The metric by which a variant wins."""
    standing: Standing | None
    """How a bandit's arms stand."""
    recent: Mapping[str, Stats]
    """What a bandit's arms scored lately by its metric; elsewhere nothing."""

    @property
    def decision(self) -> Comparison | None:
        """The comparison by the metric that decides."""
        found = (each for each in self.comparisons if each.metric == self.deciding)
        return next(found, None)

    @property
    def winner(self) -> Estimate | None:
        """Who has won by `stop_when`; None where nobody has, or none is set."""
        rule, decision = self.experiment.stop_when, self.decision
        if rule is None or decision is None:
            return None
        return results.winner(
            decision.estimates,
            confidence=rule.confidence,
            min_samples=rule.min_samples,
        )


def of(
    config: Config, experiment: ExperimentConfig, since: datetime | None = None
) -> Report:
    """Return how an experiment goes; of a bandit, in its window unless told since."""
    begin = since or experiment_scores.since(experiment)
    standing, recent = None, dict[str, Stats]()
    if experiment.strategy == "bandit":
        recent = experiment_scores.recent(experiment)
        standing = choosing.standing(experiment, recent)
    return Report(
        experiment,
        begin,
        traffic.by_agent(experiment.name, begin),
        [
            compared(experiment, metric, begin)
            for metric in experiment_metrics.shared(config, experiment)
        ],
        experiment_metrics.deciding(config, experiment),
        standing,
        recent,
    )


def compared(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> Comparison:
    """Return how the variants compare by one metric."""
    scores = experiment_scores.by(experiment, metric, since)
    return Comparison(metric, results.estimates(experiment.agents, scores))
