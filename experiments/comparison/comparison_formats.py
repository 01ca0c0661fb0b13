"""Experiment reports for the terminal and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from core.text import text_table
from experiments import assignment
from experiments.comparison.comparison_report import ExperimentReport, VariantComparison
from experiments.comparison.inference import MeanEstimate
from experiments.config import ExperimentConfig, StopRule
from judges.ratings.scores import ScoreStats
from telemetry.presentation import turn_serializers
from telemetry.statistics.variant_counts import VariantCounts

NO_VALUE = "-"


def overview_lines(reports: Sequence[ExperimentReport]) -> Iterator[str]:
    """Yield a line for each experiment."""
    rows = [
        [
            report.experiment.name,
            report.experiment.strategy,
            ", ".join(report.experiment.agents),
            f"{sum(each.served for each in report.traffic.values()):,}",
            report.deciding or NO_VALUE,
            result_line(report),
        ]
        for report in reports
    ]
    header = ["experiment", "strategy", "variants", "turns", "metric", "result"]
    yield from text_table.table_lines(header, rows, right=[3])


def detail_lines(report: ExperimentReport) -> Iterator[str]:
    """Yield all details of one experiment."""
    experiment = report.experiment
    title = f"{experiment.name}: {experiment.strategy}"
    if experiment.strategy != "shadow":
        title += (
            ", sticky by user"
            if experiment.sticky_by_user
            else ", random for each request"
        )
    if report.since:
        title += f", since {report.since:%Y-%m-%d %H:%M} UTC"
    yield title
    yield from _variant_lines(report)
    for comparison in report.comparisons:
        yield ""
        label = " (deciding metric)" if comparison.metric == report.deciding else ""
        yield f"{comparison.metric}{label}"
        yield from _comparison_lines(comparison)
    yield ""
    yield result_line(report)


def _variant_lines(report: ExperimentReport) -> Iterator[str]:
    served = sum(each.served for each in report.traffic.values())
    rows = []
    for name in report.experiment.agents:
        counts = report.traffic.get(name, VariantCounts())
        rows.append(
            [
                name,
                format_share(report.experiment, name),
                f"{counts.served:,}",
                format_percent(counts.served / served) if served else NO_VALUE,
                f"{counts.shadow_runs:,}",
                variant_state(report, name),
            ]
        )
    header = ["variant", "target share", "turns", "actual share", "shadow runs", ""]
    yield from text_table.table_lines(header, rows, right=range(1, 5))


def format_share(experiment: ExperimentConfig, agent: str) -> str:
    """Return the configured share of users of a variant."""
    if experiment.strategy == "split":
        total = sum(variant.weight for variant in experiment.variants)
        return format_percent(
            sum(v.weight for v in experiment.variants if v.agent == agent) / total
        )
    if experiment.strategy == "shadow":
        return format_percent(1.0 if agent == experiment.primary else 0.0)
    return NO_VALUE


def variant_state(report: ExperimentReport, agent: str) -> str:
    """Return a variant's state in the strategy: primary, leader, undersampled."""
    experiment, status = report.experiment, report.bandit_status
    if experiment.strategy == "shadow":
        rate = format_percent(experiment.sampling_rate)
        is_primary = agent == experiment.primary
        return "primary" if is_primary else f"shadow of {rate} of turns"
    if status is None:
        return ""
    if agent in status.undersampled:
        return f"undersampled: fewer than {experiment.min_samples} recent scores"
    return "leader" if agent == status.leader else ""


def _comparison_lines(comparison: VariantComparison) -> Iterator[str]:
    rows = [
        [
            each.agent,
            f"{each.count:,}",
            _format_number(each.mean),
            NO_VALUE
            if each.low is None
            else f"{_format_number(each.low)} to {_format_number(each.high)}",
            NO_VALUE if each.best is None else format_probability(each.best),
        ]
        for each in comparison.estimates
    ]
    header = ["variant", "scores", "mean", "95 % interval", "P(best)"]
    yield from text_table.table_lines(header, rows, right=range(1, 5))


def result_line(report: ExperimentReport) -> str:
    """Return one line: the winner, or why there is none."""
    comparison, rule = report.deciding_comparison, report.experiment.stop_when
    if not report.comparisons:
        return "No judge scores all variants"
    if comparison is None:
        return "Several metrics: set stop_when.metric to the deciding one"
    leader = comparison.leader
    if leader is None:
        names = ", ".join(each.agent for each in comparison.estimates if each.count < 2)
        return f"Too few scores for {names}"
    best = (
        f"{leader.agent}, best with a probability of "
        f"{format_probability(leader.best or 0)}"
    )
    if rule is None:
        return f"Leader: {best}"
    if report.winner is not None:
        return f"Winner: {best}"
    missing = _missing_to_win(comparison.estimates, rule)
    return f"No winner yet. Leader: {best}; {missing}"


def _missing_to_win(estimates: Sequence[MeanEstimate], rule: StopRule) -> str:
    """Return what a variant lacks to win."""
    undersampled = [each for each in estimates if each.count < rule.min_samples]
    if undersampled:
        counts = ", ".join(f"{each.agent} has {each.count}" for each in undersampled)
        return f"each variant needs {rule.min_samples} scores, {counts}"
    return f"a winner needs {format_percent(rule.confidence, 1)}"


def format_probability(share: float) -> str:
    """Return a probability as text, never as certainty."""
    if share >= 0.9995:
        return "over 99.9 %"
    return format_percent(share, 1) if share >= 0.0005 else "under 0.1 %"


def format_percent(share: float, places: int = 0) -> str:
    """Return a share as a percentage."""
    return f"{share * 100:.{places}f} %"


def _format_number(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.2f}"


def as_json(report: ExperimentReport) -> dict[str, Any]:
    """Return a report as JSON."""
    experiment, winner = report.experiment, report.winner
    return {
        "object": "experiment",
        "name": experiment.name,
        "strategy": experiment.strategy,
        "sticky_by_user": experiment.sticky_by_user,
        "primary": experiment.primary,
        "sampling_rate": experiment.sampling_rate
        if experiment.strategy == "shadow"
        else None,
        "since": None
        if report.since is None
        else turn_serializers.format_time(report.since),
        "variants": [_variant_as_json(report, name) for name in experiment.agents],
        "metrics": [
            {
                "metric": each.metric,
                "estimates": [asdict(estimate) for estimate in each.estimates],
            }
            for each in report.comparisons
        ],
        "deciding": report.deciding,
        "stop_when": None
        if experiment.stop_when is None
        else experiment.stop_when.model_dump(),
        "winner": None if winner is None else winner.agent,
        "result": result_line(report),
        "bandit": _bandit_as_json(report),
    }


def _bandit_as_json(report: ExperimentReport) -> dict[str, Any] | None:
    """Return a bandit's state; None for other strategies."""
    experiment, status = report.experiment, report.bandit_status
    if status is None:
        return None
    return {
        "metric": experiment.metric,
        "epsilon": experiment.epsilon,
        "min_samples": experiment.min_samples,
        "window_seconds": experiment.bandit_window_seconds,
        "leader": status.leader,
        "undersampled": list(status.undersampled),
        "variants": [
            _bandit_variant_as_json(report.recent.get(name), name)
            for name in experiment.agents
        ],
    }


def _bandit_variant_as_json(stats: ScoreStats | None, name: str) -> dict[str, Any]:
    count = 0 if stats is None else stats.count
    mean = None if stats is None else stats.mean
    return {"agent": name, "count": count, "mean": mean}


def _current_shares(report: ExperimentReport) -> dict[str, float]:
    """Return the current share of users of each variant."""
    experiment, status = report.experiment, report.bandit_status
    if status is not None:
        return assignment.choice_probabilities(experiment, status)
    if experiment.strategy == "shadow":
        return {name: float(name == experiment.primary) for name in experiment.agents}
    total = sum(variant.weight for variant in experiment.variants)
    return {each.agent: each.weight / total for each in experiment.variants}


def _variant_as_json(report: ExperimentReport, name: str) -> dict[str, Any]:
    counts, status = report.traffic.get(name, VariantCounts()), report.bandit_status
    weights = [v.weight for v in report.experiment.variants if v.agent == name]
    served = sum(each.served for each in report.traffic.values())
    return {
        "agent": name,
        "weight": sum(weights),
        "share": _current_shares(report)[name],
        "turns": counts.served,
        "share_of_turns": counts.served / served if served else None,
        "shadow_runs": counts.shadow_runs,
        "is_primary": report.experiment.primary == name,
        "is_leader": status is not None and status.leader == name,
        "is_undersampled": status is not None and name in status.undersampled,
    }
