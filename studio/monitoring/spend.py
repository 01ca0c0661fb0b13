"""Spending by day, agent, model, user or token, as a page, JSON, YAML or CSV.

Each of them is also a filter of the others.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from access.models import ApiToken
from access.users import identity
from admin_base.filters import TIME_PARAMETERS, TimeFilter, parse_range
from admin_base.formats import csv_export, data_formats
from admin_base.query_parameters import check_names, query_choice
from config import live
from core.errors import Invalid
from core.text import time_parsing
from studio.base.charts import USD, Chart, build_chart
from studio.base.views import StudioView
from studio.monitoring import hourly_charts, spend_stream
from studio.monitoring.spend_export import SpendExport
from telemetry.config import TELEMETRY
from telemetry.models import Turn
from telemetry.presentation import spend_table
from telemetry.presentation.spend_schemas import Spending
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import (
    ALL,
    DIMENSIONS,
    CostTotal,
    Dimension,
    SpendFilter,
)

DEFAULT_DIMENSION: Dimension = "agent"
DEFAULT_SINCE = "30d"
PERIODS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
FILTERS = {
    "user": "The name, as clients send it, or the UUID.",
    "agent": "The agent that was requested.",
    "model": "A provider and its model: only its calls, such as `openai/gpt-5-mini`.",
    "token": "The label of an API token, or its UUID.",
}
"""The parameters that select what is summed, besides the time."""
ROWS_SHOWN = 100
"""Rows on the page; the data has all of them, streamed if there are many."""


class SpendView(StudioView):
    """`/admin/spend`."""

    title = "Spend"
    template = "studio/monitoring/spend.html"
    renderer_classes = [*StudioView.renderer_classes, data_formats.CsvRenderer]

    @extend_schema(
        summary="Sum up spending",
        parameters=[
            OpenApiParameter(
                "by",
                str,
                enum=DIMENSIONS,
                description=f"{DEFAULT_DIMENSION} by default.",
            ),
            *TimeFilter.of("started_at").describe(Turn),
            *(
                OpenApiParameter(each, str, description=FILTERS[each])
                for each in FILTERS
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
        """Return the costs of turns, judges and embeddings, highest first."""
        now = datetime.now(UTC)
        by: Dimension = (
            query_choice(request.query_params, "by", DIMENSIONS) or DEFAULT_DIMENSION
        )
        check_names(request.query_params, ("by", "format", *TIME_PARAMETERS, *FILTERS))
        given = {name: str(text) for name, text in request.query_params.items() if text}
        start, end = parse_range(given, now)
        since = start or time_parsing.parse_past(DEFAULT_SINCE, now)
        chosen = _read_filter(given, end)
        if self.wants_html:
            return self.respond(page_context(by, since, given, now, chosen))
        export = SpendExport.start(by, since, chosen, _list_notes(since, now))
        if request.accepted_renderer.format == "csv":
            name = f"spend-by-{by}-since-{since:%Y-%m-%d}.csv"
            return csv_export.csv_response(
                name, spend_stream.stream(export, as_csv=True)
            )
        if export.after is not None:
            # JSON is also YAML.
            renderer = request.accepted_renderer
            charset = f"; charset={renderer.charset}" if renderer.charset else ""
            return StreamingHttpResponse(
                spend_stream.stream(export, as_csv=False),
                content_type=f"{renderer.media_type}{charset}",
            )
        return self.respond(
            Spending.serialize_totals(by, since, export.rows, export.notes)
        )


def _read_filter(given: Mapping[str, str], until: datetime | None) -> SpendFilter:
    """Return the filter of a query; raises `Invalid`."""
    model, user, token = (given.get(name, "") for name in ("model", "user", "token"))
    if model and not all(model.partition("/")):
        raise Invalid("'model' must be provider/model", param="model")
    user_id = identity.derive_user_id(identity.check_identifier(user)) if user else None
    tokens = ApiToken.objects.find_ids(token) if token else None
    return SpendFilter(until, given.get("agent", ""), model, user_id, tokens)


def _list_notes(since: datetime, now: datetime) -> list[str]:
    settings = live.current().get(TELEMETRY)
    return [*spend_table.notes(since, cost_totals.oldest_turn_at(), settings, now)]


def page_context(
    by: Dimension,
    since: datetime,
    query: Mapping[str, str],
    now: datetime,
    chosen: SpendFilter = ALL,
) -> dict[str, Any]:
    days = totals = cost_totals.totals_by("day", since, chosen)
    if by != "day":
        totals = cost_totals.totals_by(
            by, since, chosen, config=live.current(), limit=ROWS_SHOWN + 1
        )
    total = cost_totals.sum_totals(days)
    names = spend_table.token_names(by, totals[:ROWS_SHOWN])
    unit = cost_totals.counted_unit(by)
    highest = max((each.micro_usd for each in totals), default=0)
    return {
        "by": by,
        "since": since,
        "period": query.get("period")
        or query.get("since")
        or ("" if query.get("from") else DEFAULT_SINCE),
        "filters": [(each, query.get(each, ""), FILTERS[each]) for each in FILTERS],
        "dimensions": [each for each in DIMENSIONS if each != "provider"],
        "periods": PERIODS,
        "unit": unit,
        "total": total,
        "unpriced": spend_table.unpriced_counts(total, unit),
        "chart": day_chart(days, since, chosen.until or now),
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
    is_unknown = not total.micro_usd and (total.unpriced or total.unpriced_expenses)
    return {
        "key": names.get(key) or key,
        "id": key,
        "address": _detail_url(by, key),
        "total": total,
        "micro_usd": None if is_unknown else total.micro_usd,
        "share": round(total.micro_usd / highest, 4) if highest else 0,
    }


def _detail_url(by: Dimension, key: str) -> str:
    """Return the page of the row's object or of its turns, if there is one."""
    if by == "day":
        return f"/admin/turns?from={key}&to={key}"
    if by == "model":
        return f"/admin/turns?{urlencode({'model': key})}"
    sections = {"agent": "agents", "token": "tokens", "user": "users"}
    if not key or by not in sections:
        return ""
    return f"/admin/{sections[by]}/{quote(key, safe='')}"


def day_chart(days: Sequence[CostTotal], since: datetime, now: datetime) -> Chart:
    """Return a bar for each day, with turns and judges together."""
    first = max(since.date(), now.date() - MAX_CHART_PERIOD)
    count = (now.date() - first).days + 1
    costs = {f"{first + timedelta(days=n)}": (0, 0) for n in range(count)}
    for each in days:
        if each.key in costs:
            priced, unpriced = costs[each.key]
            costs[each.key] = priced + each.micro_usd, unpriced + each.unpriced
    bars = [hourly_charts.cost_series(list(costs.values()))]
    return build_chart("Cost by day", list(costs), bars, axis="Day (UTC)", unit=USD)


MAX_CHART_PERIOD = timedelta(days=366)
"""Bars of a chart."""
