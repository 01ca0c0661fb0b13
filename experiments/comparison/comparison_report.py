"""How an experiment goes: who got how much, who scored how well, who has won.

Reads tables: for commands, jobs and the database's threads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.sections import Config
from experiments import assignment
from experiments.assignment import BanditStatus
from experiments.comparison import comparison_metrics, inference, variant_scores
from experiments.comparison.inference import MeanEstimate
from experiments.config import ExperimentConfig, split_metric
from judges.ratings import scores
from judges.ratings.scores import ScoreStats, VariantScoreQuery
from telemetry.statistics import variant_counts
from telemetry.statistics.variant_counts import VariantCounts


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """The variants by one metric."""

    metric: str
    estimates: Sequence[MeanEstimate]

    @property
    def leader(self) -> MeanEstimate | None:
        """Who is likeliest the best; None where too little is known."""
        known = [each for each in self.estimates if each.best is not None]
        return max(known, key=lambda each: each.best or 0, default=None)


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """All there is to tell of an experiment."""

    experiment: ExperimentConfig
    since: datetime | None
    """From when turns and scores count; None is from the first on."""
    traffic: Mapping[str, VariantCounts]
    comparisons: Sequence[VariantComparison]
    deciding: str | None
    """The metric by which a variant wins."""
    bandit_status: BanditStatus | None
    """How a bandit's arms stand."""
    recent: Mapping[str, ScoreStats]
    """What a bandit's arms scored lately by its metric; elsewhere nothing."""

    @property
    def deciding_comparison(self) -> VariantComparison | None:
        """The comparison by the metric that decides."""
        found = (each for each in self.comparisons if each.metric == self.deciding)
        return next(found, None)

    @property
    def winner(self) -> MeanEstimate | None:
        """Who has won by `stop_when`; None where nobody has, or none is set."""
        rule, decision = self.experiment.stop_when, self.deciding_comparison
        if rule is None or decision is None:
            return None
        return inference.find_winner(
            decision.estimates,
            confidence=rule.confidence,
            min_samples=rule.min_samples,
        )


def build_report(
    config: Config, experiment: ExperimentConfig, since: datetime | None = None
) -> ExperimentReport:
    """Return how an experiment goes; of a bandit, in its window unless told since."""
    begin = since or variant_scores.scores_since(experiment)
    standing, recent = None, dict[str, ScoreStats]()
    if experiment.strategy == "bandit":
        recent = variant_scores.recent_stats(experiment)
        standing = assignment.bandit_status(experiment, recent)
    return ExperimentReport(
        experiment,
        begin,
        variant_counts.counts_by_agent(experiment.name, begin),
        [
            compare_variants(experiment, metric, begin)
            for metric in comparison_metrics.shared_metrics(config, experiment)
        ],
        comparison_metrics.deciding_metric(config, experiment),
        standing,
        recent,
    )


def find_winners(
    config: Config, experiments: Iterable[ExperimentConfig]
) -> dict[str, str]:
    """Return who has won by `stop_when`, by experiment; in one query for all."""
    trials: dict[str, VariantScoreQuery] = {}
    ruled = {each.name: each for each in experiments if each.stop_when is not None}
    for name, each in ruled.items():
        metric = split_metric(comparison_metrics.deciding_metric(config, each) or "")
        if metric is not None:
            since = variant_scores.scores_since(each)
            trials[name] = VariantScoreQuery(name, *metric, each.agents, since)
    found = scores.variant_stats([*trials.values()])
    won = {name: _winner_of(ruled[name], stats) for name, stats in found.items()}
    return {name: one.agent for name, one in won.items() if one is not None}


def _winner_of(
    experiment: ExperimentConfig, scored: Mapping[str, ScoreStats]
) -> MeanEstimate | None:
    rule, least = experiment.stop_when, experiment.agents
    if rule is None or any(
        agent not in scored or scored[agent].count < rule.min_samples for agent in least
    ):
        # Known without a word on chances, which take longer to tell.
        return None
    return inference.find_winner(
        inference.estimate_means(experiment.agents, scored),
        confidence=rule.confidence,
        min_samples=rule.min_samples,
    )


def compare_variants(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> VariantComparison:
    """Return how the variants compare by one metric."""
    scores = variant_scores.variant_stats(experiment, metric, since)
    return VariantComparison(
        metric, inference.estimate_means(experiment.agents, scores)
    )
