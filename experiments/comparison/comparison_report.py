"""Report of an experiment: traffic, scores and the winner of its variants.

Reads tables: call it from commands, jobs and database threads.
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
        """The variant most likely to be the best; None with too few scores."""
        estimates = [each for each in self.estimates if each.best is not None]
        return max(estimates, key=lambda each: each.best or 0, default=None)


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """All data about an experiment."""

    experiment: ExperimentConfig
    since: datetime | None
    """Turns and scores count from this time on; None counts all."""
    traffic: Mapping[str, VariantCounts]
    comparisons: Sequence[VariantComparison]
    deciding: str | None
    """The metric by which a variant wins."""
    bandit_status: BanditStatus | None
    """The state of a bandit's variants."""
    recent: Mapping[str, ScoreStats]
    """Recent scores of a bandit's variants by its metric; empty for others."""

    @property
    def deciding_comparison(self) -> VariantComparison | None:
        """The comparison by the deciding metric."""
        for comparison in self.comparisons:
            if comparison.metric == self.deciding:
                return comparison
        return None

    @property
    def winner(self) -> MeanEstimate | None:
        """The winner by `stop_when`; None without a winner or rule."""
        rule, comparison = self.experiment.stop_when, self.deciding_comparison
        if rule is None or comparison is None:
            return None
        return inference.find_winner(
            comparison.estimates,
            confidence=rule.confidence,
            min_samples=rule.min_samples,
        )


def build_report(
    config: Config, experiment: ExperimentConfig, since: datetime | None = None
) -> ExperimentReport:
    """Return the report of an experiment.

    Without `since`, the report of a bandit covers its window.
    """
    since = since or variant_scores.scores_since(experiment)
    status, recent = None, dict[str, ScoreStats]()
    if experiment.strategy == "bandit":
        recent = variant_scores.recent_stats(experiment)
        status = assignment.bandit_status(experiment, recent)
    return ExperimentReport(
        experiment,
        since,
        variant_counts.counts_by_agent(experiment.name, since),
        [
            compare_variants(experiment, metric, since)
            for metric in comparison_metrics.shared_metrics(config, experiment)
        ],
        comparison_metrics.deciding_metric(config, experiment),
        status,
        recent,
    )


def find_winners(
    config: Config, experiments: Iterable[ExperimentConfig]
) -> dict[str, str]:
    """Return the winners by `stop_when`, by experiment; one query for all."""
    queries: list[VariantScoreQuery] = []
    ruled = {each.name: each for each in experiments if each.stop_when is not None}
    for name, each in ruled.items():
        metric = split_metric(comparison_metrics.deciding_metric(config, each) or "")
        if metric is not None:
            since = variant_scores.scores_since(each)
            queries.append(VariantScoreQuery(name, *metric, each.agents, since))
    winners = {
        name: _winner_of(ruled[name], stats)
        for name, stats in scores.variant_stats(queries).items()
    }
    return {name: winner.agent for name, winner in winners.items() if winner}


def _winner_of(
    experiment: ExperimentConfig, stats: Mapping[str, ScoreStats]
) -> MeanEstimate | None:
    rule = experiment.stop_when
    if rule is None or any(
        agent not in stats or stats[agent].count < rule.min_samples
        for agent in experiment.agents
    ):
        # Returns early, because probabilities take longer to compute.
        return None
    return inference.find_winner(
        inference.estimate_means(experiment.agents, stats),
        confidence=rule.confidence,
        min_samples=rule.min_samples,
    )


def compare_variants(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> VariantComparison:
    """Return the comparison of the variants by one metric."""
    stats = variant_scores.variant_stats(experiment, metric, since)
    return VariantComparison(metric, inference.estimate_means(experiment.agents, stats))
