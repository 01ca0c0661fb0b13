"""Charts: unfold draws them with Chart.js, and a table has the same figures.

Chart.js formats the axis and the tooltips in the reader's locale, by the options of
`Intl.NumberFormat` that a `Unit` names.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from admin_base.templatetags.studio import NO_VALUE, count, seconds, usd

ACCENT, BAD, DARK = "#bd216b", "#b3261e", "#7d1247"
LINE_COLOURS = (ACCENT, "#1d7a4c", "#96610a", "#2467b3", "#6d4bb8", "#6b686c")


class Unit(NamedTuple):
    """What the values of a chart measure."""

    label: str
    ticks: dict[str, Any]
    """Options of Chart.js for the ticks of the axis; tooltips take their format."""
    text: Callable[[Any], str]
    """Formats a value for the table."""


def _format(**options: Any) -> dict[str, Any]:
    return {"format": {"maximumSignificantDigits": 3, **options}}


COUNT = Unit("", {"precision": 0}, count)
TOKENS = Unit("tokens", _format(notation="compact"), count)
USD = Unit(
    "USD",
    _format(style="currency", currency="USD", currencyDisplay="narrowSymbol"),
    lambda dollars: usd(round(dollars * 1_000_000)),
)
SECONDS = Unit("seconds", _format(style="unit", unit="second"), seconds)
SCORE = Unit("score", _format(), lambda score: f"{score:.3g}")


class Series(NamedTuple):
    """Values of one colour; None where there is none."""

    label: str
    values: Sequence[float | None]
    colour: str = ACCENT
    texts: Sequence[str] = ()
    """The cells of the table, if the unit does not format them."""

    def has_value(self, index: int) -> bool:
        return bool(self.texts[index] if self.texts else self.values[index])


class Chart(NamedTuple):
    """A chart, as its template takes it."""

    title: str
    template: str
    data: str
    options: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The rows with a value."""


def build_chart(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    axis: str,
    unit: Unit = COUNT,
    kind: Literal["bar", "line"] = "bar",
    limits: tuple[float, float] | None = None,
) -> Chart:
    """Return a chart of a value of each series for each label of the axis."""
    return Chart(
        title,
        f"unfold/components/chart/{kind}.html",
        _dump(
            {"labels": labels, "datasets": [_dataset(each, kind) for each in series]}
        ),
        _dump(_options(series, axis, unit, limits)),
        [axis, *(each.label for each in series)],
        [
            [label, *(_cell(each, index, unit) for each in series)]
            for index, label in enumerate(labels)
            if any(each.has_value(index) for each in series)
        ],
    )


def _dataset(series: Series, kind: str) -> dict[str, Any]:
    return {
        "label": series.label,
        "data": series.values,
        "backgroundColor": series.colour,
        "borderColor": series.colour,
        "hoverBackgroundColor": series.colour,
        # Bars of one label lie on each other, the first series in front.
        "grouped": False,
        "categoryPercentage": 0.9,
        "maxBarThickness": 48,
        "borderWidth": 0 if kind == "bar" else 2,
        "pointRadius": 2,
    }


def _options(
    series: Sequence[Series],
    axis: str,
    unit: Unit,
    limits: tuple[float, float] | None,
) -> dict[str, Any]:
    low, high = limits or (0, None)
    return {
        "animation": False,
        "maintainAspectRatio": False,
        # A whole column shows the tooltip, also to a finger.
        "interaction": {"mode": "index", "intersect": False},
        "plugins": {
            "legend": {
                "display": len(series) > 1,
                "align": "end",
                "labels": {"boxHeight": 8, "boxWidth": 8},
            }
        },
        "scales": {
            "x": {
                "title": {"display": True, "text": axis},
                "grid": {"display": False},
                "ticks": {"maxRotation": 0, "autoSkipPadding": 8},
            },
            "y": {
                "min": low,
                "max": high,
                "title": {"display": bool(unit.label), "text": unit.label},
                "border": {"display": False},
                "grid": {"lineWidth": 0.5},
                "ticks": {"maxTicksLimit": 5, **unit.ticks},
            },
        },
    }


def _cell(series: Series, index: int, unit: Unit) -> str:
    if series.texts:
        return series.texts[index]
    value = series.values[index]
    return NO_VALUE if value is None else unit.text(value)


def _dump(data: Any) -> str:
    return orjson.dumps(data).decode()
