"""How the studio writes measures, their changes, and how runs ended."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template

from smoke.drawing import ENDS
from smoke.models import Run
from studio import score_chart
from studio.score_chart import Chart, OfDay
from studio.templatetags.studio import NOTHING, duration, percent, usd

register = template.Library()


@register.filter
def measure(value: float | None, unit: str) -> str:
    """Write a measure of a batch."""
    if value is None:
        return NOTHING
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
def change(value: float | None, unit: str) -> str:
    """Write how much more a measure is now, with its sign."""
    if value is None:
        return NOTHING
    if value == 0:
        return "±0"
    sign = "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{sign}{measure(abs(value), unit)}"


@register.filter
def ending(why: str | None) -> str:
    """Write why a conversation ended."""
    return str(ENDS[Run.Stop(why)]) if why else ""


@register.filter
def calls_told(calls: Sequence[Mapping[str, Any]]) -> str:
    """Write what a line called in one line: its tools, else its model."""
    tools = [call["name"] for call in calls if call["object"] == "tool_call"]
    if tools:
        return f"called {', '.join(tools)}"
    return ", ".join(dict.fromkeys(str(call.get("model", "")) for call in calls))


@register.filter
def day_lines(days: Sequence[OfDay]) -> Chart | None:
    """Return the lines of mean scores over the last month."""
    return score_chart.of(days, datetime.now(UTC).date(), score_chart.DAYS)
