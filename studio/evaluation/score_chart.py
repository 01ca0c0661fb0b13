"""Line charts of mean scores over days, rendered on the server."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

ChartDay = Mapping[str, Any]
"""A day's `mean` and `count` by one `criterion`, as in responses to scripts."""

WIDTH, HEIGHT = 600, 100
"""In units of the image; browsers stretch it."""
DAYS = 30
MAX_SCORE = 10
MIN_SCALE_POINTS = 4
"""The smallest range of the scale in points, so that small changes look small."""
LINE_COLOURS = 6
"""Distinct line styles."""


@dataclass(frozen=True, slots=True)
class CriterionLine:
    """One criterion."""

    criterion: str
    colour: int
    """The number of its style, from 1."""
    paths: Sequence[str]
    """The path, interrupted where days have no score."""


@dataclass(frozen=True, slots=True)
class DayColumn:
    """One day's column for the tooltip."""

    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class ScoreChart:
    """The chart."""

    lines: Sequence[CriterionLine]
    columns: Sequence[DayColumn]
    first: str
    last: str
    low: int
    """The lowest score on the scale."""
    high: int


def build_chart(
    scores: Sequence[ChartDay], today: date, days: int
) -> ScoreChart | None:
    """Return a chart of the last days; None if no day has a score."""
    if not scores:
        return None
    dates = [today - timedelta(days=back) for back in range(days, -1, -1)]
    means: dict[str, dict[str, ChartDay]] = {}
    for each in scores:
        means.setdefault(each["criterion"], {})[each["day"]] = each
    step = WIDTH / (len(dates) - 1)
    low, high = _scale([each["mean"] for each in scores])
    lines = [
        CriterionLine(
            criterion, number % LINE_COLOURS + 1, _paths(by_day, dates, step, low, high)
        )
        for number, (criterion, by_day) in enumerate(sorted(means.items()))
    ]
    columns = [
        DayColumn(round((n - 0.5) * step, 1), round(step, 1), _day_label(day, means))
        for n, day in enumerate(dates)
    ]
    first, last = f"{dates[0]:%d %b}", f"{dates[-1]:%d %b}"
    return ScoreChart(lines, columns, first, last, low, high)


def _scale(means: Sequence[float]) -> tuple[int, int]:
    """Return whole points that enclose all means."""
    low, high = math.floor(min(means)), math.ceil(max(means))
    while high - low < MIN_SCALE_POINTS:
        low, high = max(low - 1, 0), min(high + 1, MAX_SCORE)
    return low, high


def _paths(
    by_day: Mapping[str, ChartDay],
    dates: Sequence[date],
    step: float,
    low: int,
    high: int,
) -> list[str]:
    """Return a path for each run of days with scores."""
    runs: list[list[str]] = [[]]
    for number, day in enumerate(dates):
        each = by_day.get(f"{day}")
        mean = None if each is None else each["mean"]
        if mean is None:
            runs.append([])
            continue
        height = HEIGHT * (high - mean) / (high - low)
        runs[-1].append(f"{number * step:.1f} {height:.1f}")
    # A single point is a line of length zero: its round ends are visible.
    return [f"M {' L '.join(run if run[1:] else run * 2)}" for run in runs if run]


def _day_label(day: date, means: Mapping[str, Mapping[str, ChartDay]]) -> str:
    means_of_day = [
        f"{criterion} {each['mean']:.2f} of {each['count']}"
        for criterion, by_day in sorted(means.items())
        if (each := by_day.get(f"{day}")) is not None
    ]
    return f"{day:%d %b}: {', '.join(means_of_day) or 'no scores'}"
