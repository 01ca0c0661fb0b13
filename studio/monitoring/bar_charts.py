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
    bad_share: float
    """The failed part of the bar."""
    part: float
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
    of: Sequence[T],
    value: Callable[[T], float],
    *,
    when: Callable[[T], str],
    said: Callable[[T], str],
    written: Callable[[float], str] = short,
    bad: Callable[[T], float] = lambda _: 0,
    part: Callable[[T], float] = lambda _: 0,
    tick: Callable[[T], str] = lambda _: "",
) -> BarChart:
    """Return a chart of values; `bad` is the failed part of each, `part` the darker
    one."""
    values = [value(each) for each in of]
    peak = max(values, default=0)
    bars = [
        ChartBar(
            round(height / peak, 4) if peak else 0,
            round(bad(each) / height, 4) if height else 0,
            round(part(each) / height, 4) if height else 0,
            f"{when(each)}: {said(each)}",
            tick(each),
        )
        for each, height in zip(of, values, strict=True)
    ]
    return BarChart(title, written(peak), bars)


def hourly_charts(hours: Sequence[HourStats]) -> list[BarChart]:
    """Return the charts of the last hours, in the order of the page's tiles."""

    def by_hour(
        title: str, value: Callable[[HourStats], float], **more: Any
    ) -> BarChart:
        return build_chart(
            title, hours, value, when=_hour_label, tick=_tick_label, **more
        )

    return [
        by_hour(
            "Turns",
            lambda each: each.turns,
            said=lambda each: _turns_label(each.turns, each.errors),
            bad=lambda each: each.errors,
        ),
        by_hour(
            "Users",
            lambda each: each.users,
            said=lambda each: f"{count(each.users)} user{_plural_suffix(each.users)}",
        ),
        by_hour(
            "Tokens",
            lambda each: each.tokens,
            said=lambda each: f"{count(each.tokens)} tokens",
        ),
        by_hour(
            "Cost",
            lambda each: each.micro_usd,
            said=lambda each: cost_label(each.micro_usd, each.unpriced),
            written=lambda micro: usd(int(micro)),
        ),
        by_hour(
            "Errors",
            lambda each: each.errors,
            said=lambda each: _turns_label(each.turns, each.errors),
            bad=lambda each: each.errors,
        ),
        by_hour(
            "Time",
            lambda each: each.p95_seconds or 0,
            said=_time_label,
            part=lambda each: each.p50_seconds or 0,
            written=lambda most: f"{seconds(most)}, dark the median",
        ),
    ]


def _hour_label(each: HourStats) -> str:
    return f"{each.at:%H:%M} UTC"


def _tick_label(each: HourStats) -> str:
    return f"{each.at:%H}" if each.at.hour % 6 == 0 else ""


def _turns_label(turns: int, errors: int) -> str:
    said = f"{count(turns)} turn{_plural_suffix(turns)}"
    return f"{said}, {count(errors)} failed" if errors else said


def _time_label(each: HourStats) -> str:
    half, most = seconds(each.p50_seconds), seconds(each.p95_seconds)
    return f"half within {half}, 95 % within {most}"


def _plural_suffix(number: int) -> str:
    return "" if number == 1 else "s"


def cost_label(micro_usd: int, unpriced: int) -> str:
    """Return the cost as text, with a note about unknown costs."""
    said = usd(micro_usd) if micro_usd or not unpriced else "unknown"
    return f"{said}, {count(unpriced)} of unknown price" if unpriced else said
