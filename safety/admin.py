"""Incidents in the studio: for one group only, and each read is in the audit."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from pydantic import BaseModel, Field

from access.audit import audit_log
from access.authentication.config import AUTH
from access.users.filters import UserFilter
from access.users.model_admin import UserRowsAdmin
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, ExactFilter, TimeFilter
from api_base.field_types import NullIfEmpty
from config import live
from safety.config import SAFETY
from safety.models import COUNTED_DAYS, Incident
from telemetry.admin import AgentFilter


class CheckFilter(ExactFilter):
    """Incidents of a check; the configured ones are suggested."""

    def suggestions(self) -> Sequence[str]:
        return [check.name for check in live.current().get(SAFETY).checks]


class StudioIncident(BaseModel, from_attributes=True):
    """A level that a check found in a turn, or a check that failed."""

    id: int
    at: datetime
    check: str = Field(validation_alias="check_name")
    level: NullIfEmpty = Field(description="null if the check failed.")
    severity: int = Field(description="The position of the level, from 1.")
    stage: Literal["before", "beside", "after"]
    agent: str
    actions: str
    reason: str
    excerpt: str
    user_id: UUID | None = Field(description="null for an incognito turn.")
    thread: str
    turn_id: UUID | None


class DayCount(BaseModel):
    """The incidents of a check on a day (UTC)."""

    day: date
    check: str
    count: int


class IncidentPage(BaseModel):
    """A page of incidents, and the counts of the last days."""

    object: Literal["list"] = "list"
    data: list[StudioIncident]
    has_more: bool
    last_id: str | None
    counts: list[DayCount]


@admin.register(Incident)
class IncidentAdmin(UserRowsAdmin):
    """The findings of safety checks."""

    path = "incidents"
    title = "Incidents"
    icon = "health_and_safety"
    list_template = "studio/monitoring/incidents.html"
    list_display = [
        "at",
        "check_shown",
        "level_shown",
        "actions",
        "agent",
        "user",
        "turn",
    ]
    list_filter = [
        CheckFilter.of("check", field="check_name"),
        ExactFilter.of("level"),
        AgentFilter.of("agent"),
        ChoiceFilter.of("stage"),
        UserFilter,
        TimeFilter.of("at"),
    ]
    column_classes = {"actions": "is-wide", "agent": "is-wide"}
    fieldsets = [
        (
            "Incident",
            {
                "fields": [
                    "at",
                    "check_shown",
                    "level_shown",
                    "stage",
                    "actions",
                    "reason",
                    "excerpt",
                ]
            },
        ),
        ("Turn", {"fields": ["agent", "user", "thread", "turn"]}),
    ]
    ordering = ["-at"]
    schema = StudioIncident
    list_response = IncidentPage
    empty_text = "Incidents appear when a check under safety: finds something."

    def may(self, request: HttpRequest, permission: str) -> bool:
        """Return the user's right; without a login, this machine's user has it."""
        has_login = live.current().get(AUTH).admin is not None
        return not has_login or super().may(request, permission)

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        """Return rows to be shown, which is recorded."""
        ids = [row.pk for row in rows]
        target = str(ids[0]) if len(ids) == 1 else f"{len(ids)} incidents"
        if ids:
            details = {"first": ids[0], "last": ids[-1]}
            audit_log.record_studio_change(request, "incident.read", target, details)
        return super().prepare_rows(request, rows)

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        return {**super().list_context(request, page), "counts": day_counts()}

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().list_data(request), "counts": day_counts()}

    @column("Check")
    def check_shown(self, row: Incident) -> str:
        return row.check_name

    @column("Level")
    def level_shown(self, row: Incident) -> str:
        return row.level or "failed"

    @column("User", css="is-wide")
    def user(self, row: Any) -> Any:
        return "incognito" if row.user_id is None else super().user(row)

    @column("Turn")
    def turn(self, row: Incident) -> Any:
        return row.turn_id and link(f"/admin/turns/{row.turn_id}", "View turn")


def day_counts() -> list[dict[str, Any]]:
    """Return the counts of the last days, as scripts receive them."""
    since = datetime.now(UTC) - timedelta(days=COUNTED_DAYS)
    return [
        {
            "day": each["day"].isoformat(),
            "check": each["check_name"],
            "count": each["count"],
        }
        for each in Incident.objects.count_by_day(since)
    ]
