"""Mean scores over days as lines, made on the server."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

ChartDay = Mapping[str, Any]
"""A day's `mean` and `count` by one `criterion`, as scripts get it."""

WIDTH, HEIGHT = 600, 100
"""Of the picture's own units; it is stretched."""
DAYS = 30
MAX_SCORE = 10
MIN_SCALE_POINTS = 4
"""Points the scale has, so that small changes look small."""
LINE_COLOURS = 6
"""Lines that look different from each other."""


@dataclass(frozen=True, slots=True)
class CriterionLine:
    """One criterion."""

    criterion: str
    colour: int
    """From 1."""
    paths: Sequence[str]
    """Where it goes, broken off where days have no score."""


@dataclass(frozen=True, slots=True)
class DayColumn:
    """One day, to be pointed at."""

    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class ScoreChart:
    """The picture."""

    lines: Sequence[CriterionLine]
    columns: Sequence[DayColumn]
    first: str
    last: str
    low: int
    """The lowest score there is on the scale."""
    high: int


def build_chart(found: Sequence[ChartDay], today: date, days: int) -> ScoreChart | None:
    """Return the lines of these days; None where no day has a score."""
    if not found:
        return None
    shown = [today - timedelta(days=back) for back in range(days, -1, -1)]
    means: dict[str, dict[str, ChartDay]] = {}
    for each in found:
        means.setdefault(each["criterion"], {})[each["day"]] = each
    step = WIDTH / (len(shown) - 1)
    low, high = _scale([each["mean"] for each in found])
    lines = [
        CriterionLine(
            criterion, number % LINE_COLOURS + 1, _paths(by_day, shown, step, low, high)
        )
        for number, (criterion, by_day) in enumerate(sorted(means.items()))
    ]
    columns = [
        DayColumn(round((n - 0.5) * step, 1), round(step, 1), _day_label(day, means))
        for n, day in enumerate(shown)
    ]
    first, last = f"{shown[0]:%d %b}", f"{shown[-1]:%d %b}"
    return ScoreChart(lines, columns, first, last, low, high)


def _scale(means: Sequence[float]) -> tuple[int, int]:
    """Return whole points that have all means between them."""
    low, high = math.floor(min(means)), math.ceil(max(means))
    while high - low < MIN_SCALE_POINTS:
        low, high = max(low - 1, 0), min(high + 1, MAX_SCORE)
    return low, high


def _paths(
    by_day: Mapping[str, ChartDay],
    shown: Sequence[date],
    step: float,
    low: int,
    high: int,
) -> list[str]:
    """Return a path for each run of days with scores."""
    runs: list[list[str]] = [[]]
    for number, day in enumerate(shown):
        each = by_day.get(f"{day}")
        mean = None if each is None else each["mean"]
        if mean is None:
            runs.append([])
            continue
        height = HEIGHT * (high - mean) / (high - low)
        runs[-1].append(f"{number * step:.1f} {height:.1f}")
    # A point alone is a line of no length: its round ends are seen.
    return [f"M {' L '.join(run if run[1:] else run * 2)}" for run in runs if run]


def _day_label(day: date, means: Mapping[str, Mapping[str, ChartDay]]) -> str:
    told = [
        f"{criterion} {each['mean']:.2f} of {each['count']}"
        for criterion, by_day in sorted(means.items())
        if (each := by_day.get(f"{day}")) is not None
    ]
    return f"{day:%d %b}: {', '.join(told) or 'no scores'}"
