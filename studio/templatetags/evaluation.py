"""Template filters of judges, experiments and smoke runs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from math import ceil, floor
from typing import Any

from django import template

from admin_base.templatetags.studio import NO_VALUE, duration, percent, usd
from experiments.comparison import result_text
from smoke.models import SmokeRun
from smoke.reports import terminal
from studio.base import charts
from studio.base.charts import Chart

register = template.Library()

CHART_DAYS = 30


@register.filter
def measure(value: float | None, unit: str) -> str:
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
def month_chart(days: Sequence[Mapping[str, Any]]) -> Chart:
    """Return lines of the mean scores by day and criterion over the last month."""
    today = datetime.now(UTC).date()
    labels = [f"{today - timedelta(days=back)}" for back in range(CHART_DAYS, -1, -1)]
    means: dict[str, dict[str, float]] = {}
    for each in days:
        means.setdefault(each["criterion"], {})[each["day"]] = each["mean"]
    series = [
        charts.Series(criterion, [by_day.get(day) for day in labels], colour)
        for (criterion, by_day), colour in zip(
            sorted(means.items()), cycle(charts.LINE_COLOURS)
        )
    ]
    values = [each["mean"] for each in days]
    return charts.build_chart(
        "Mean scores by day",
        labels,
        series,
        axis="Day (UTC)",
        unit=charts.SCORE,
        kind="line",
        limits=(max(0, floor(min(values)) - 1), min(10, ceil(max(values)) + 1)),
    )


@register.filter
def probability(share: float) -> str:
    """Format a probability, never as certain."""
    return result_text.format_probability(share)


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
