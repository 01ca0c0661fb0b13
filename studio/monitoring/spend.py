"""Spending by day, agent, model, user or token, as a page, JSON, YAML or CSV."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request

from config import live
from core import money
from core.text import time_parsing
from studio.base import csv_export, formats
from studio.base.query_parameters import query_choice
from studio.base.views import StudioView
from studio.monitoring import bar_charts
from studio.monitoring.bar_charts import BarChart
from studio.templatetags.studio import usd
from telemetry.config import TELEMETRY
from telemetry.presentation import spend_table
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import DIMENSIONS, CostTotal, Dimension

DEFAULT_DIMENSION: Dimension = "agent"
DEFAULT_SINCE = "30d"
PERIODS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
ROWS_SHOWN = 100
"""Rows on the page; the data has all of them."""


class SpendTotal(BaseModel):
    """Total spending."""

    turns: int | None = Field(
        None, description="Missing for models and providers, which have `calls`."
    )
    calls: int | None = None
    input_tokens: int
    output_tokens: int
    cost_usd: float = Field(description="Without the unpriced calls.")
    judgements: int
    unpriced_turns: int | None = Field(None, description="Turns without a price.")
    unpriced_calls: int | None = None
    unpriced_judgements: int


class SpendRow(SpendTotal):
    """The spending of one group; the field `by` has its key."""

    agent: str | None = None
    day: str | None = None
    model: str | None = None
    provider: str | None = None
    token: str | None = None
    user: str | None = None
    kind: Literal["turns", "judges"]


class Spending(BaseModel):
    """Spending since an instant."""

    object: Literal["spending"] = "spending"
    by: Literal["agent", "day", "model", "provider", "token", "user"]
    since: datetime
    data: list[SpendRow]
    total: SpendTotal
    notes: list[str] = Field(description="Gaps in the turn record.")


class SpendView(StudioView):
    """`/admin/spend`."""

    title = "Spend"
    template = "studio/monitoring/spend.html"
    renderer_classes = [*StudioView.renderer_classes, formats.CsvRenderer]

    @extend_schema(
        summary="Sum up spending",
        parameters=[
            OpenApiParameter(
                "by",
                str,
                enum=DIMENSIONS,
                description=f"{DEFAULT_DIMENSION} by default.",
            ),
            OpenApiParameter(
                "since",
                str,
                description=f"12h, 7d, 4w or a date; {DEFAULT_SINCE} by default.",
            ),
            OpenApiParameter(
                "format",
                str,
                enum=["csv", "json", "yaml"],
                description="Overrides `Accept`.",
            ),
        ],
        responses=Spending,
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Return the costs of turns and their judges, highest first."""
        now = datetime.now(UTC)
        by: Dimension = query_choice(self, "by", DIMENSIONS) or DEFAULT_DIMENSION
        since = time_parsing.parse_past(
            request.query_params.get("since") or DEFAULT_SINCE, now
        )
        if self.wants_html:
            return self.respond(page_context(by, since, request.query_params, now))
        totals = cost_totals.totals_by(by, since)
        if request.accepted_renderer.format == "csv":
            return _csv_response(by, since, totals)
        notes = [*_list_notes(since, now)]
        total = cost_totals.sum_totals(totals)
        return self.respond(spend_table.as_json(by, since, totals, total, notes))


def _list_notes(since: datetime, now: datetime) -> Sequence[str]:
    settings = live.current().get(TELEMETRY)
    return [*spend_table.notes(since, cost_totals.oldest_turn_at(), settings, now)]


def _csv_response(
    by: Dimension, since: datetime, totals: Sequence[CostTotal]
) -> HttpResponseBase:
    """Return the table as CSV."""
    names = spend_table.token_names(by, totals)
    unit = spend_table.counted_unit(by)
    name = ["name"] if by == "token" else []
    head = [
        by,
        *name,
        "kind",
        unit,
        f"unpriced_{unit}",
        "judgements",
        "unpriced_judgements",
        "input_tokens",
        "output_tokens",
        "cost_usd",
    ]
    rows = (
        [
            each.key,
            *(names.get(each.key or "", "") for _ in name),
            "judges" if each.judgements else "turns",
            each.turns,
            each.unpriced,
            each.judgements,
            each.unpriced_judgements,
            each.input_tokens,
            each.output_tokens,
            money.format_usd(each.micro_usd),
        ]
        for each in totals
    )
    return csv_export.csv_response(
        f"spend-by-{by}-since-{since:%Y-%m-%d}.csv", head, rows
    )


def page_context(
    by: Dimension, since: datetime, query: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the context of the page."""
    days = cost_totals.totals_by("day", since)
    totals = (
        days if by == "day" else cost_totals.totals_by(by, since, limit=ROWS_SHOWN + 1)
    )
    total = cost_totals.sum_totals(days)
    names = spend_table.token_names(by, totals[:ROWS_SHOWN])
    highest = max((each.micro_usd for each in totals), default=0)
    return {
        "by": by,
        "since": since,
        "period": query.get("since") or DEFAULT_SINCE,
        "dimensions": [each for each in DIMENSIONS if each != "provider"],
        "periods": PERIODS,
        "unit": spend_table.counted_unit(by),
        "total": total,
        "chart": build_chart(days, since, now),
        "rows": [
            _table_row(by, each, names, highest) for each in _sort_rows(by, totals)
        ],
        "has_more": len(totals) > ROWS_SHOWN,
        "notes": _list_notes(since, now),
    }


def _sort_rows(by: Dimension, totals: list[CostTotal]) -> list[CostTotal]:
    if by != "day":
        return totals[:ROWS_SHOWN]
    # Within a day, turns come before their judges.
    return sorted(totals, key=lambda each: each.key or "", reverse=True)


def _table_row(
    by: Dimension, total: CostTotal, names: Mapping[str, str], highest: int
) -> dict[str, Any]:
    key = total.key or ""
    is_unknown = not total.micro_usd and (total.unpriced or total.unpriced_judgements)
    return {
        "key": names.get(key) or key,
        "id": key,
        "address": _detail_url(by, key),
        "total": total,
        "micro_usd": None if is_unknown else total.micro_usd,
        "share": round(total.micro_usd / highest, 4) if highest else 0,
    }


def _detail_url(by: Dimension, key: str) -> str:
    """Return the page of the row's object, if there is one."""
    sections = {"agent": "agents", "token": "tokens", "user": "users"}
    if not key or by not in sections:
        return ""
    return f"/admin/{sections[by]}/{quote(key, safe='')}"


def build_chart(days: Sequence[CostTotal], since: datetime, now: datetime) -> BarChart:
    """Return a bar for each day, with turns and judges together."""
    costs: dict[str, tuple[int, int]] = {}
    for each in days:
        priced, unpriced = costs.get(each.key or "", (0, 0))
        costs[each.key or ""] = priced + each.micro_usd, unpriced + each.unpriced
    first = max(since.date(), now.date() - MAX_CHART_PERIOD)
    count = (now.date() - first).days + 1
    # No label at the end, where there is no room for it.
    ticks = range(0, max(1, count - count // 12), max(1, count // 6))
    numbered_days = [(n, f"{first + timedelta(days=n)}") for n in range(count)]
    return bar_charts.build_chart(
        "Cost by day",
        numbered_days,
        lambda day: costs.get(day[1], (0, 0))[0],
        describe_time=lambda day: day[1],
        describe_value=lambda day: bar_charts.cost_label(*costs.get(day[1], (0, 0))),
        format_peak=lambda micro: usd(int(micro)),
        tick=lambda day: day[1][5:] if day[0] in ticks else "",
    )


MAX_CHART_PERIOD = timedelta(days=366)
"""Bars of a chart."""
