"""Results of experiments as text, for the terminal and as one sentence."""

from collections.abc import Iterator, Sequence

from core.text import text_table
from experiments.comparison.inference import MeanEstimate
from experiments.config import StopRule
from experiments.schemas import ExperimentResults, MetricResult, VariantResult

NO_VALUE = "-"


def overview_lines(reports: Sequence[ExperimentResults]) -> Iterator[str]:
    """Yield a line for each experiment."""
    rows = [
        [
            report.name,
            report.strategy,
            ", ".join(each.agent for each in report.variants),
            f"{sum(each.turns for each in report.variants):,}",
            report.deciding or NO_VALUE,
            report.result,
        ]
        for report in reports
    ]
    header = ["experiment", "strategy", "variants", "turns", "metric", "result"]
    yield from text_table.table_lines(header, rows, right=[3])


def detail_lines(report: ExperimentResults) -> Iterator[str]:
    title = f"{report.name}: {report.strategy}"
    if report.strategy != "shadow":
        is_sticky = report.sticky_by_user
        title += f", {'sticky by user' if is_sticky else 'random for each request'}"
    if report.since:
        title += f", since {report.since:%Y-%m-%d %H:%M} UTC"
    yield title
    rows = [_variant_cells(report, each) for each in report.variants]
    header = ["variant", "target share", "turns", "actual share", "shadow runs", ""]
    yield from text_table.table_lines(header, rows, right=range(1, 5))
    for metric in report.metrics:
        yield ""
        label = " (deciding metric)" if metric.metric == report.deciding else ""
        yield f"{metric.metric}{label}"
        yield from _comparison_lines(metric)
    yield ""
    yield report.result


def _variant_cells(report: ExperimentResults, variant: VariantResult) -> list[str]:
    share, is_bandit = variant.share_of_turns, report.bandit is not None
    return [
        variant.agent,
        NO_VALUE if is_bandit else format_percent(variant.share),
        f"{variant.turns:,}",
        NO_VALUE if share is None else format_percent(share),
        f"{variant.shadow_runs:,}",
        _variant_state(report, variant),
    ]


def _variant_state(report: ExperimentResults, variant: VariantResult) -> str:
    """Return a variant's state in the strategy: primary, leader, undersampled."""
    if report.sampling_rate is not None:
        rate = format_percent(report.sampling_rate)
        return "primary" if variant.is_primary else f"shadow of {rate} of turns"
    if report.bandit is not None and variant.is_undersampled:
        return f"undersampled: fewer than {report.bandit.min_samples} recent scores"
    return "leader" if variant.is_leader else ""


def _comparison_lines(metric: MetricResult) -> Iterator[str]:
    rows = [
        [
            each.agent,
            f"{each.count:,}",
            NO_VALUE if each.mean is None else f"{each.mean:.2f}",
            NO_VALUE if each.low is None else f"{each.low:.2f} to {each.high:.2f}",
            NO_VALUE if each.best is None else format_probability(each.best),
        ]
        for each in metric.estimates
    ]
    header = ["variant", "scores", "mean", "95 % interval", "P(best)"]
    yield from text_table.table_lines(header, rows, right=range(1, 5))


def describe_result(
    metrics: Sequence[MetricResult],
    decisive: MetricResult | None,
    rule: StopRule | None,
    winner: MeanEstimate | None,
) -> str:
    """Return one line: the winner, or why there is none."""
    if not metrics:
        return "No judge scores all variants"
    if decisive is None:
        return "Several metrics: set stop_when.metric to the deciding one"
    leader = decisive.leader
    if leader is None:
        names = ", ".join(each.agent for each in decisive.estimates if each.count < 2)
        return f"Too few scores for {names}"
    best = (
        f"{leader.agent}, best with a probability of "
        f"{format_probability(leader.best or 0)}"
    )
    if rule is None:
        return f"Leader: {best}"
    if winner is not None:
        return f"Winner: {best}"
    return f"No winner yet. Leader: {best}; {_missing_to_win(decisive.estimates, rule)}"


def _missing_to_win(estimates: Sequence[MeanEstimate], rule: StopRule) -> str:
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
    return f"{share * 100:.{places}f} %"
