"""The audit and the usage counters in the studio."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.utils.html import format_html

from access.limits import usage_limits
from access.models import AuditEntry, UsageCounter
from access.schemas import (
    AuditLogEntry,
)
from access.users.filters import UserFilter
from admin_base.columns import column
from admin_base.filters import (
    ChoiceFilter,
    ExactFilter,
    Filter,
    TextFilter,
    TimeFilter,
)
from admin_base.model_admin import StudioModelAdmin
from admin_base.templatetags.studio import usd

WINDOWS = [
    ("0", "all time"),
    ("1", "calendar month"),
    ("60", "minute"),
    ("3600", "hour"),
    ("86400", "day"),
    ("2592000", "30 days"),
]


class WindowFilter(ChoiceFilter):
    """Counters of windows of one length."""

    options = [value for value, _ in WINDOWS]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return WINDOWS


class ActionFilter(Filter):
    """Entries of an action, or of all actions of a kind."""

    description = "An action or a prefix: `token` matches all token actions."

    def apply(self, queryset: Any, value: str) -> Any:
        return queryset.of_action(value)


class SubjectFilter(UserFilter):
    """Counters of a user."""

    field = "subject"

    def value_of(self, user_id: Any) -> Any:
        return usage_limits.user_subject(user_id)


@admin.register(UsageCounter)
class UsageCounterAdmin(StudioModelAdmin):
    """The usage of users, tokens and agents, counted for their limits."""

    path = "usage-counters"
    icon = "speed"
    list_display = ["subject", "window_shown", "started", "requests", "tokens", "spent"]
    list_filter = [ExactFilter.of("subject"), SubjectFilter, WindowFilter.of("window")]
    column_classes = {
        "requests": "number is-wide",
        "tokens": "number is-wide",
        "subject": "identity",
    }
    empty_text = "Counters appear with the first turn under a limit."

    @column("Window")
    def window_shown(self, row: UsageCounter) -> str:
        return dict(WINDOWS).get(str(row.window), f"{row.window} s")

    @column("Start", css="is-wide")
    def started(self, row: UsageCounter) -> datetime | None:
        return datetime.fromtimestamp(row.start, UTC) if row.start else None

    @column("Spent", css="number")
    def spent(self, row: UsageCounter) -> str:
        unpriced = f", {row.unpriced} unpriced" if row.unpriced else ""
        return f"{usd(row.micro_usd)}{unpriced}"


@admin.register(AuditEntry)
class AuditEntryAdmin(StudioModelAdmin):
    """Who changed what, when and from where."""

    path = "audit"
    title = "Audit"
    icon = "history"
    list_display = ["at", "action_shown", "target", "actor", "origin", "details"]
    list_filter = [
        ActionFilter.of("action"),
        TextFilter.of("actor", description="A part of the actor's name."),
        TextFilter.of("target", description="A part of the target."),
        TimeFilter.of("at"),
    ]
    ordering = ["-at"]
    schema = AuditLogEntry
    table_class = "audit"
    empty_text = (
        "Changes made in the studio, on the command line and by sign-ins appear here."
    )

    @column("Action")
    def action_shown(self, row: AuditEntry) -> Any:
        return format_html("<code>{}</code>", row.action)
