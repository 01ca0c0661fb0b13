"""How an experiment goes: who got how much, who scored how well, who has won.

Reads tables: for commands, jobs and the database's threads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.sections import Config
from experiments import assignment
from experiments.assignment import Standing
from experiments.comparison import comparison_metrics, inference, variant_scores
from experiments.comparison.inference import Estimate
from experiments.config import ExperimentConfig, split_metric
from judges.ratings import scores
from judges.ratings.scores import Stats, Trial
from telemetry.statistics import variant_counts
from telemetry.statistics.variant_counts import Traffic


@dataclass(frozen=True, slots=True)
class Comparison:
    """The variants by one metric."""

    metric: str
    estimates: Sequence[Estimate]

    @property
    def leader(self) -> Estimate | None:
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
    bandit_status: Standing | None
    """How a bandit's arms stand."""
    recent: Mapping[str, Stats]
    """What a bandit's arms scored lately by its metric; elsewhere nothing."""

    @property
    def deciding_comparison(self) -> Comparison | None:
        """The comparison by the metric that decides."""
        found = (each for each in self.comparisons if each.metric == self.deciding)
        return next(found, None)

    @property
    def winner(self) -> Estimate | None:
        """Who has won by `stop_when`; None where nobody has, or none is set."""
        rule, decision = self.experiment.stop_when, self.deciding_comparison
        if rule is None or decision is None:
            return None
        return inference.winner(
            decision.estimates,
            confidence=rule.confidence,
            min_samples=rule.min_samples,
        )


def of(
    config: Config, experiment: ExperimentConfig, since: datetime | None = None
) -> Report:
    """Return how an experiment goes; of a bandit, in its window unless told since."""
    begin = since or variant_scores.since(experiment)
    standing, recent = None, dict[str, Stats]()
    if experiment.strategy == "bandit":
        recent = variant_scores.recent(experiment)
        standing = assignment.standing(experiment, recent)
    return Report(
        experiment,
        begin,
        variant_counts.by_agent(experiment.name, begin),
        [
            compared(experiment, metric, begin)
            for metric in comparison_metrics.shared(config, experiment)
        ],
        comparison_metrics.deciding(config, experiment),
        standing,
        recent,
    )


def winners(config: Config, experiments: Iterable[ExperimentConfig]) -> dict[str, str]:
    """Return who has won by `stop_when`, by experiment; in one query for all."""
    trials: dict[str, Trial] = {}
    ruled = {each.name: each for each in experiments if each.stop_when is not None}
    for name, each in ruled.items():
        metric = split_metric(comparison_metrics.deciding(config, each) or "")
        if metric is not None:
            since = variant_scores.since(each)
            trials[name] = Trial(name, *metric, each.agents, since)
    found = scores.of_trials([*trials.values()])
    won = {name: _won(ruled[name], stats) for name, stats in found.items()}
    return {name: one.agent for name, one in won.items() if one is not None}


def _won(experiment: ExperimentConfig, scored: Mapping[str, Stats]) -> Estimate | None:
    rule, least = experiment.stop_when, experiment.agents
    if rule is None or any(
        agent not in scored or scored[agent].count < rule.min_samples for agent in least
    ):
        # Known without a word on chances, which take longer to tell.
        return None
    return inference.winner(
        inference.estimates(experiment.agents, scored),
        confidence=rule.confidence,
        min_samples=rule.min_samples,
    )


def compared(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> Comparison:
    """Return how the variants compare by one metric."""
    scores = variant_scores.by(experiment, metric, since)
    return Comparison(metric, inference.estimates(experiment.agents, scores))
