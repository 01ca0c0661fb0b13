"""Report of an experiment: traffic, scores and the winner of its variants.

Reads tables: call it from commands, jobs and database threads.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from config.sections import Config
from experiments import assignment
from experiments.assignment import BanditStatus
from experiments.comparison import (
    comparison_metrics,
    inference,
    result_text,
    variant_scores,
)
from experiments.comparison.inference import MeanEstimate
from experiments.config import ExperimentConfig, split_metric
from experiments.schemas import (
    BanditState,
    BanditVariant,
    ExperimentResults,
    MetricResult,
    VariantResult,
)
from judges.models import Score
from judges.ratings.statistics import ScoreStats, VariantScoreQuery
from telemetry.models import Turn, VariantCounts


def build_report(
    config: Config, experiment: ExperimentConfig, since: datetime | None = None
) -> ExperimentResults:
    """Return the report of an experiment.

    Without `since`, the report of a bandit covers its window, and others all turns.
    """
    since = since or variant_scores.scores_since(experiment)
    status, recent = None, dict[str, ScoreStats]()
    if experiment.strategy == "bandit":
        recent = variant_scores.recent_stats(experiment)
        status = assignment.bandit_status(experiment, recent)
    turns = Turn.objects.filter(experiment=experiment.name)
    if since is not None:
        turns = turns.filter(started_at__gte=since)
    counts = turns.count_variants().get(experiment.name, {})
    metrics = [
        compare_variants(experiment, metric, since)
        for metric in comparison_metrics.shared_metrics(config, experiment)
    ]
    deciding = comparison_metrics.deciding_metric(config, experiment)
    decisive = next((each for each in metrics if each.metric == deciding), None)
    winner = _find_winner(experiment, decisive.estimates) if decisive else None
    is_shadow, rule = experiment.strategy == "shadow", experiment.stop_when
    return ExperimentResults(
        name=experiment.name,
        strategy=experiment.strategy,
        sticky_by_user=experiment.sticky_by_user,
        primary=experiment.primary,
        sampling_rate=experiment.sampling_rate if is_shadow else None,
        since=since,
        variants=_list_variants(experiment, counts, status),
        metrics=metrics,
        deciding=deciding,
        stop_when=rule,
        winner=winner and winner.agent,
        result=result_text.describe_result(metrics, decisive, rule, winner),
        bandit=status and _describe_bandit(experiment, status, recent),
    )


def _list_variants(
    experiment: ExperimentConfig,
    counts: Mapping[str, VariantCounts],
    status: BanditStatus | None,
) -> list[VariantResult]:
    served = sum(each.served for each in counts.values())
    shares = _current_shares(experiment, status)
    variants = []
    for variant in experiment.variants:
        name = variant.agent
        found = counts.get(name, VariantCounts())
        variants.append(
            VariantResult(
                agent=name,
                weight=variant.weight,
                share=shares[name],
                turns=found.served,
                share_of_turns=found.served / served if served else None,
                shadow_runs=found.shadow_runs,
                is_primary=experiment.primary == name,
                is_leader=status is not None and status.leader == name,
                is_undersampled=status is not None and name in status.undersampled,
            )
        )
    return variants


def _current_shares(
    experiment: ExperimentConfig, status: BanditStatus | None
) -> dict[str, float]:
    if status is not None:
        return assignment.choice_probabilities(experiment, status)
    if experiment.strategy == "shadow":
        return {name: float(name == experiment.primary) for name in experiment.agents}
    total = sum(variant.weight for variant in experiment.variants)
    return {each.agent: each.weight / total for each in experiment.variants}


def _describe_bandit(
    experiment: ExperimentConfig,
    status: BanditStatus,
    recent: Mapping[str, ScoreStats],
) -> BanditState:
    scored = {name: (stats.count, stats.mean) for name, stats in recent.items()}
    variants = []
    for name in experiment.agents:
        count, mean = scored.get(name, (0, None))
        variants.append(BanditVariant(agent=name, count=count, mean=mean))
    return BanditState(
        metric=experiment.metric or "",
        epsilon=experiment.epsilon,
        min_samples=experiment.min_samples,
        window_seconds=experiment.bandit_window_seconds,
        leader=status.leader,
        undersampled=list(status.undersampled),
        variants=variants,
    )


def compare_variants(
    experiment: ExperimentConfig, metric: str, since: datetime | None
) -> MetricResult:
    stats = variant_scores.variant_stats(experiment, metric, since)
    estimates = inference.estimate_means(experiment.agents, stats)
    return MetricResult(metric=metric, estimates=estimates)


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
        for name, stats in Score.objects.stats_by_variant(queries).items()
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
    estimates = inference.estimate_means(experiment.agents, stats)
    return _find_winner(experiment, estimates)


def _find_winner(
    experiment: ExperimentConfig, estimates: Sequence[MeanEstimate]
) -> MeanEstimate | None:
    """Return the winner by `stop_when`; None without a winner or rule."""
    if (rule := experiment.stop_when) is None:
        return None
    return inference.find_winner(
        estimates, confidence=rule.confidence, min_samples=rule.min_samples
    )
