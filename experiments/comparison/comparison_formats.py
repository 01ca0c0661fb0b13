"""How experiments go, for the terminal and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from core.text import text_table
from experiments import assignment
from experiments.comparison.comparison_report import Comparison, Report
from experiments.comparison.inference import Estimate
from experiments.config import ExperimentConfig, StopRule
from judges.ratings.scores import Stats
from telemetry.presentation import turn_serializers
from telemetry.statistics.variant_counts import Traffic

NONE = "-"
INDENT = "  "


def overview(reports: Sequence[Report]) -> Iterator[str]:
    """Yield a line for each experiment."""
    rows = [
        [
            *(report.experiment.name, report.experiment.strategy),
            ", ".join(report.experiment.agents),
            f"{sum(each.served for each in report.traffic.values()):,}",
            report.deciding or NONE,
            verdict(report),
        ]
        for report in reports
    ]
    head = ["experiment", "strategy", "variants", "turns", "metric", "result"]
    yield from text_table.lines(head, rows, right=[3])


def whole(report: Report) -> Iterator[str]:
    """Yield all there is to tell of one experiment."""
    experiment = report.experiment
    sticky = "sticky by user" if experiment.sticky_by_user else "drawn for each request"
    how = f", {sticky}" if experiment.strategy != "shadow" else ""
    since = f", since {report.since:%Y-%m-%d %H:%M} UTC" if report.since else ""
    yield f"{experiment.name}: {experiment.strategy}{how}{since}"
    yield from _variants(report)
    for comparison in report.comparisons:
        yield ""
        decides = " (decides)" if comparison.metric == report.deciding else ""
        yield f"{comparison.metric}{decides}"
        yield from _comparison(comparison)
    yield ""
    yield verdict(report)


def _variants(report: Report) -> Iterator[str]:
    served = sum(each.served for each in report.traffic.values())
    rows = []
    for name in report.experiment.agents:
        each = report.traffic.get(name, Traffic())
        part = percent(each.served / served) if served else NONE
        rows.append(
            [
                *(name, share(report.experiment, name)),
                *(f"{each.served:,}", part, f"{each.shadow_runs:,}", state(report, name)),
            ]
        )
    head = ["variant", "share", "turns", "of all", "trials", ""]
    yield from text_table.lines(head, rows, right=range(1, 5))


def share(experiment: ExperimentConfig, agent: str) -> str:
    """Return which part of the users a variant is to have."""
    if experiment.strategy == "split":
        total = sum(variant.weight for variant in experiment.variants)
        return percent(
            sum(v.weight for v in experiment.variants if v.agent == agent) / total
        )
    if experiment.strategy == "shadow":
        return percent(1.0 if agent == experiment.primary else 0.0)
    return NONE


def state(report: Report, agent: str) -> str:
    """Return what a variant is to the strategy: primary, leader, short of scores."""
    experiment, standing = report.experiment, report.bandit_status
    if experiment.strategy == "shadow":
        rate = percent(experiment.sampling_rate)
        is_primary = agent == experiment.primary
        return "primary" if is_primary else f"shadow of {rate} of turns"
    if standing is None:
        return ""
    if agent in standing.undersampled:
        return f"explored: fewer than {experiment.min_samples} recent scores"
    return "leader" if agent == standing.leader else ""


def _comparison(comparison: Comparison) -> Iterator[str]:
    rows = [
        [
            *(each.agent, f"{each.count:,}", _figure(each.mean)),
            NONE
            if each.low is None
            else f"{_figure(each.low)} to {_figure(each.high)}",
            NONE if each.best is None else chance(each.best),
        ]
        for each in comparison.estimates
    ]
    head = ["variant", "scores", "mean", "95 % interval", "is best"]
    yield from text_table.lines(head, rows, right=range(1, 5))


def verdict(report: Report) -> str:
    """Return in a line who has won, or why nobody has."""
    decision, rule = report.deciding_comparison, report.experiment.stop_when
    if not report.comparisons:
        return "No judge scores all variants"
    if decision is None:
        return "Several metrics are compared: name under stop_when.metric which decides"
    ahead = decision.leader
    if ahead is None:
        short = ", ".join(each.agent for each in decision.estimates if each.count < 2)
        return f"Too few scores of {short}"
    best = f"{ahead.agent}, the best with a chance of {chance(ahead.best or 0)}"
    if rule is None:
        return f"Ahead: {best}"
    if report.winner is not None:
        return f"Winner: {best}"
    wanted = _wanted(decision.estimates, rule)
    return f"No winner yet. Ahead: {best}; {wanted}"


def _wanted(estimates: Sequence[Estimate], rule: StopRule) -> str:
    """Return what a variant lacks to win."""
    short = [each for each in estimates if each.count < rule.min_samples]
    if short:
        counts = ", ".join(f"{each.agent} has {each.count}" for each in short)
        return f"each needs {rule.min_samples} scores, {counts}"
    return f"{percent(rule.confidence, 1)} is asked"


def chance(share: float) -> str:
    """Return how likely something is, and never that it is certain."""
    if share >= 0.9995:
        return "over 99.9 %"
    return percent(share, 1) if share >= 0.0005 else "under 0.1 %"


def percent(share: float, places: int = 0) -> str:
    """Return a share as people read it."""
    return f"{share * 100:.{places}f} %"


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def document(report: Report) -> dict[str, Any]:
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
        else turn_serializers.instant(report.since),
        "variants": [_variant(report, name) for name in experiment.agents],
        "metrics": [
            {
                "metric": each.metric,
                "estimates": [asdict(one) for one in each.estimates],
            }
            for each in report.comparisons
        ],
        "deciding": report.deciding,
        "stop_when": None
        if experiment.stop_when is None
        else experiment.stop_when.model_dump(),
        "winner": None if winner is None else winner.agent,
        "verdict": verdict(report),
        "bandit": _bandit(report),
    }


def _bandit(report: Report) -> dict[str, Any] | None:
    """Return how a bandit stands; None of other strategies."""
    experiment, standing = report.experiment, report.bandit_status
    if standing is None:
        return None
    return {
        "metric": experiment.metric,
        "epsilon": experiment.epsilon,
        "min_samples": experiment.min_samples,
        "window_seconds": experiment.bandit_window_seconds,
        "leader": standing.leader,
        "starved": list(standing.undersampled),
        "arms": [_arm(report.recent.get(name), name) for name in experiment.agents],
    }


def _arm(stats: Stats | None, name: str) -> dict[str, Any]:
    count = 0 if stats is None else stats.count
    mean = None if stats is None else stats.mean
    return {"agent": name, "count": count, "mean": mean}


def _shares(report: Report) -> dict[str, float]:
    """Return which part of the users each variant is to have now."""
    experiment, standing = report.experiment, report.bandit_status
    if standing is not None:
        return assignment.chances(experiment, standing)
    if experiment.strategy == "shadow":
        return {name: float(name == experiment.primary) for name in experiment.agents}
    total = sum(variant.weight for variant in experiment.variants)
    return {each.agent: each.weight / total for each in experiment.variants}


def _variant(report: Report, name: str) -> dict[str, Any]:
    each, standing = report.traffic.get(name, Traffic()), report.bandit_status
    weights = [v.weight for v in report.experiment.variants if v.agent == name]
    served = sum(traffic.served for traffic in report.traffic.values())
    return {
        "agent": name,
        "weight": sum(weights),
        "share": _shares(report)[name],
        "turns": each.served,
        "share_of_turns": each.served / served if served else None,
        "trials": each.shadow_runs,
        "is_primary": report.experiment.primary == name,
        "is_leader": standing is not None and standing.leader == name,
        "is_explored": standing is not None and name in standing.undersampled,
    }
