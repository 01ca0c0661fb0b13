"""The chart of incidents by day."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from django import template

from safety.models import COUNTED_DAYS
from studio.base import charts
from studio.base.charts import Chart

register = template.Library()


@register.filter
def incident_chart(counts: Sequence[Mapping[str, Any]]) -> Chart:
    """Return a line of the incidents by day for each check."""
    today = datetime.now(UTC).date()
    days = [f"{today - timedelta(days=back)}" for back in range(COUNTED_DAYS, -1, -1)]
    by_check: dict[str, dict[str, int]] = {}
    for each in counts:
        by_check.setdefault(each["check"], {})[each["day"]] = each["count"]
    series = [
        charts.Series(check, [by_day.get(day, 0) for day in days], colour)
        for (check, by_day), colour in zip(
            sorted(by_check.items()), cycle(charts.LINE_COLOURS)
        )
    ]
    return charts.build_chart(
        "Incidents by day", days, series, axis="Day (UTC)", kind="line"
    )
