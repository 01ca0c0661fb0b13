"""Bars, made on the server: a page has them without a script."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from studio.templatetags.studio import count, short, usd
from telemetry.glance import HourFigures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bar:
    """One of them."""

    share: float
    """Of the highest, from 0 to 1."""
    bad_share: float
    """Of the bar itself, what went wrong."""
    said: str
    """What it says when pointed at."""
    tick: str = ""
    """What stands below it."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars beside each other."""

    title: str
    peak: str
    """What the highest is."""
    bars: Sequence[Bar]

    @property
    def is_empty(self) -> bool:
        return not any(bar.share for bar in self.bars)


def chart(
    title: str,
    of: Sequence[T],
    value: Callable[[T], float],
    *,
    when: Callable[[T], str],
    said: Callable[[T], str],
    written: Callable[[float], str] = short,
    bad: Callable[[T], float] = lambda _: 0,
    tick: Callable[[T], str] = lambda _: "",
) -> Chart:
    """Return a chart of values; `bad` is the part of each that went wrong."""
    values = [value(each) for each in of]
    peak = max(values, default=0)
    bars = [
        Bar(
            round(height / peak, 4) if peak else 0,
            round(bad(each) / height, 4) if height else 0,
            f"{when(each)}: {said(each)}",
            tick(each),
        )
        for each, height in zip(of, values, strict=True)
    ]
    return Chart(title, written(peak), bars)


def of_hours(hours: Sequence[HourFigures]) -> list[Chart]:
    """Return the charts of the last hours: turns with their errors, tokens, cost."""

    def when(each: HourFigures) -> str:
        return f"{each.at:%H:%M} UTC"

    def tick(each: HourFigures) -> str:
        return f"{each.at:%H}" if each.at.hour % 6 == 0 else ""

    return [
        chart(
            "Turns",
            *(hours, lambda each: each.turns),
            when=when,
            said=lambda each: turns_said(each.turns, each.errors),
            bad=lambda each: each.errors,
            tick=tick,
        ),
        chart(
            "Tokens",
            *(hours, lambda each: each.tokens),
            when=when,
            said=lambda each: f"{count(each.tokens)} tokens",
            tick=tick,
        ),
        chart(
            "Cost",
            *(hours, lambda each: each.micro_usd),
            when=when,
            said=lambda each: cost_said(each.micro_usd, each.unpriced),
            written=lambda micro: usd(int(micro)),
            tick=tick,
        ),
    ]


def turns_said(turns: int, errors: int) -> str:
    """Say how many turns there were, and failed."""
    said = f"{count(turns)} turn{'' if turns == 1 else 's'}"
    return f"{said}, {count(errors)} failed" if errors else said


def cost_said(micro_usd: int, unpriced: int) -> str:
    """Say what it cost, and that more is unknown."""
    said = usd(micro_usd) if micro_usd or not unpriced else "unknown"
    return f"{said}, {count(unpriced)} of unknown price" if unpriced else said
