"""Bar charts, rendered on the server without scripts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from studio.templatetags.studio import count, seconds, short, usd
from telemetry.statistics.recent_activity import HourStats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One bar."""

    share: float
    """The height relative to the highest bar, from 0 to 1."""
    failed_share: float
    """The failed part of the bar."""
    dark_share: float
    """The darker part of the bar."""
    label: str
    """The tooltip."""
    tick: str = ""
    """The label below it."""


@dataclass(frozen=True, slots=True)
class BarChart:
    """A chart of bars."""

    title: str
    peak: str
    """The label of the highest value."""
    bars: Sequence[ChartBar]

    @property
    def is_empty(self) -> bool:
        return not any(bar.share for bar in self.bars)


def build_chart(
    title: str,
    items: Sequence[T],
    value: Callable[[T], float],
    *,
    describe_time: Callable[[T], str],
    describe_value: Callable[[T], str],
    format_peak: Callable[[float], str] = short,
    failed: Callable[[T], float] = lambda _: 0,
    dark: Callable[[T], float] = lambda _: 0,
    tick: Callable[[T], str] = lambda _: "",
) -> BarChart:
    """Return a chart of the values; `failed` and `dark` are parts of each value."""
    values = [value(each) for each in items]
    peak = max(values, default=0)
    bars = [
        ChartBar(
            round(height / peak, 4) if peak else 0,
            round(failed(each) / height, 4) if height else 0,
            round(dark(each) / height, 4) if height else 0,
            f"{describe_time(each)}: {describe_value(each)}",
            tick(each),
        )
        for each, height in zip(items, values, strict=True)
    ]
    return BarChart(title, format_peak(peak), bars)


def hourly_charts(hours: Sequence[HourStats]) -> list[BarChart]:
    """Return the charts of the last hours, in the order of the page's tiles."""

    def by_hour(
        title: str, value: Callable[[HourStats], float], **options: Any
    ) -> BarChart:
        return build_chart(
            title, hours, value, describe_time=_hour_label, tick=_tick_label, **options
        )

    return [
        by_hour(
            "Turns",
            lambda each: each.turns,
            describe_value=lambda each: _turns_label(each.turns, each.errors),
            failed=lambda each: each.errors,
        ),
        by_hour(
            "Users",
            lambda each: each.users,
            describe_value=lambda each: (
                f"{count(each.users)} user{_plural_suffix(each.users)}"
            ),
        ),
        by_hour(
            "Tokens",
            lambda each: each.tokens,
            describe_value=lambda each: f"{count(each.tokens)} tokens",
        ),
        by_hour(
            "Cost",
            lambda each: each.micro_usd,
            describe_value=lambda each: cost_label(each.micro_usd, each.unpriced),
            format_peak=lambda micro: usd(int(micro)),
        ),
        by_hour(
            "Errors",
            lambda each: each.errors,
            describe_value=lambda each: _turns_label(each.turns, each.errors),
            failed=lambda each: each.errors,
        ),
        by_hour(
            "Time",
            lambda each: each.p95_seconds or 0,
            describe_value=_time_label,
            dark=lambda each: each.p50_seconds or 0,
            format_peak=lambda peak: f"{seconds(peak)} (p95); dark: median",
        ),
    ]


def _hour_label(each: HourStats) -> str:
    return f"{each.at:%H:%M} UTC"


def _tick_label(each: HourStats) -> str:
    return f"{each.at:%H}" if each.at.hour % 6 == 0 else ""


def _turns_label(turns: int, errors: int) -> str:
    label = f"{count(turns)} turn{_plural_suffix(turns)}"
    return f"{label}, {count(errors)} failed" if errors else label


def _time_label(each: HourStats) -> str:
    return f"median {seconds(each.p50_seconds)}, p95 {seconds(each.p95_seconds)}"


def _plural_suffix(number: int) -> str:
    return "" if number == 1 else "s"


def cost_label(micro_usd: int, unpriced: int) -> str:
    """Return the cost as text, with the number of turns unpriced."""
    label = usd(micro_usd) if micro_usd or not unpriced else "unknown"
    return f"{label}, {count(unpriced)} unpriced" if unpriced else label
