"""Template filters of judges, experiments and smoke runs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template

from experiments.comparison import comparison_formats
from smoke.models import SmokeRun
from smoke.reports import terminal
from studio.evaluation import score_chart
from studio.evaluation.score_chart import ChartDay, ScoreChart
from studio.templatetags.studio import NO_VALUE, duration, percent, usd

register = template.Library()


@register.filter
def measure(value: float | None, unit: str) -> str:
    """Format a measure of a batch."""
    if value is None:
        return NO_VALUE
    match unit:
        case "share":
            return percent(value)
        case "seconds":
            return duration(value * 1000)
        case "usd":
            return usd(round(value * 1_000_000))
        case "score":
            return f"{value:.2f}"
    return f"{value:.1f}"


@register.filter
def signed_change(value: float | None, unit: str) -> str:
    """Format the change of a measure, with its sign."""
    if value is None:
        return NO_VALUE
    if value == 0:
        return "±0"
    sign = "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{sign}{measure(abs(value), unit)}"


@register.filter
def end_reason(reason: str | None) -> str:
    """Return why a conversation ended."""
    return terminal.END_DESCRIPTIONS[SmokeRun.Stop(reason)] if reason else ""


@register.filter
def tool_names(calls: Sequence[dict[str, Any]]) -> str:
    """Return the tools that a message called, in order."""
    return ", ".join(terminal.tool_names(calls))


@register.filter
def month_chart(days: Sequence[ChartDay]) -> ScoreChart | None:
    """Return the lines of mean scores over the last month."""
    return score_chart.build_chart(days, datetime.now(UTC).date(), score_chart.DAYS)


@register.filter
def probability(share: float) -> str:
    """Format a probability, never as certain."""
    return comparison_formats.format_probability(share)


@register.filter
def share_reached(count: int, target: int) -> str:
    """Format the reached part of a target, for a progress bar."""
    return f"{min(1.0, count / target) if target else 1.0:.4f}"


@register.filter
def time_span(seconds: int) -> str:
    """Format a duration in whole days, hours or minutes."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            number = seconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return f"{seconds} seconds"


@register.filter
def scale_intervals(metric: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metric's estimates with the positions of their intervals on one scale.

    The scale covers all intervals and is at least one point long.
    """
    estimates = metric["estimates"]
    lows = [each["low"] for each in estimates if each["low"] is not None]
    highs = [each["high"] for each in estimates if each["high"] is not None]
    low, high = min(lows, default=0.0), max(highs, default=10.0)
    pad = max(0.0, (1 - (high - low)) / 2)
    low, high = low - pad, high + pad
    rows = [_place_interval(each, low, high) for each in estimates]
    return {"low": low, "high": high, "rows": rows}


def _place_interval(each: Mapping[str, Any], low: float, high: float) -> dict[str, Any]:
    if each["low"] is None:
        return {**each, "at": None}

    def at(value: float) -> str:
        return f"{(value - low) / (high - low):.4f}"

    label = f"{each['mean']:.2f}: {each['low']:.2f} to {each['high']:.2f}"
    return {
        **each,
        "label": label,
        "low_at": at(each["low"]),
        "high_at": at(each["high"]),
        "at": at(each["mean"]),
    }
