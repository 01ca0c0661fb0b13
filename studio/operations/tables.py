"""Read-only pages of the tables that no app shows in an `admin.py` of its own."""

from collections.abc import Sequence
from typing import Any, Literal

from django.contrib import admin
from django.db.models import Model
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.models import UsageReservation
from admin_base.model_admin import StudioModelAdmin
from database.models import RunningProcess
from memory.models import ConsolidationRun, FactChange, Summary
from smoke.models import SmokeMessage
from studio.base.views import StudioView
from telemetry.models import Expense, HourlyTotal, ModelCall, ToolCall

LIST_COLUMNS: dict[type[Model], Sequence[str]] = {
    ConsolidationRun: ("started_at", "finished_at", "threads", "messages", "failures"),
    Expense: ("spent_at", "purpose", "name", "agent", "model", "cost_micro_usd"),
    FactChange: ("at", "user_id", "action", "by", "reason"),
    HourlyTotal: ("hour_id", "kind", "agent", "model", "number", "micro_usd"),
    ModelCall: ("started_at", "turn_id", "agent", "provider", "model", "seconds"),
    RunningProcess: ("started_at", "kind", "host", "pid", "config_digest", "seen_at"),
    SmokeMessage: ("sent_at", "run_id", "position", "speaker", "agent"),
    Summary: ("created_at", "user_id", "first_position", "end_position", "model"),
    ToolCall: ("started_at", "turn_id", "kind", "name", "seconds", "error"),
    UsageReservation: ("reserved_at", "settled_at", "process", "counters"),
}
"""The columns of each list."""


class TableAdmin(StudioModelAdmin):
    """A table, the newest key first."""

    is_documented = False

    def get_queryset(self, request: Any) -> Any:
        """Return rows whose large fields are read only if a page shows them."""
        rows = super().get_queryset(request)
        is_list = request.resolver_match.url_name.endswith("_changelist")
        return rows.only(*self.list_display) if is_list else rows


def register() -> None:
    for model, names in LIST_COLUMNS.items():
        path = f"tables/{model._meta.app_label}/{model._meta.model_name}"
        fields = {"list_display": names, "path": path}
        admin.site.register(
            model, type(f"{model.__name__}Admin", (TableAdmin,), fields)
        )


class TableLink(BaseModel, from_attributes=True):
    """A table and its address."""

    title: str
    address: str


class TableList(BaseModel):
    """The tables that the user may see."""

    object: Literal["list"] = "list"
    data: list[TableLink]
    has_more: Literal[False] = False


class TableListView(StudioView):
    """`/admin/tables`."""

    title = "Tables"
    template = "studio/operations/tables.html"

    @extend_schema(summary="List database tables", responses=TableList)
    def get(self, request: Request) -> Response:
        """List the tables without a page of their own."""
        tables: list[Any] = [admin.site._registry[model] for model in LIST_COLUMNS]
        shown = [each for each in tables if each.may(request._request, "view")]
        shown.sort(key=lambda each: each.title)
        return self.respond(TableList(data=shown).model_dump())
