"""The audit and the usage counters in the studio."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html

from access import user_lookup
from access.limits import usage_limits
from access.models import ApiToken, AuditEntry, UsageCounter
from access.schemas import AuditLogEntry
from access.users.filters import UserFilter
from admin_base.columns import column
from admin_base.filters import ChoiceFilter, ExactFilter, Filter, TextFilter, TimeFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.templatetags.studio import usd
from config import live

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
    list_display = [
        "name",
        "subject",
        "window_shown",
        "started",
        "requests",
        "tokens",
        "spent",
    ]
    list_filter = [ExactFilter.of("subject"), SubjectFilter, WindowFilter.of("window")]
    column_classes = {
        "requests": "number is-wide",
        "tokens": "number is-wide",
        "subject": "identity is-wide",
    }
    empty_text = "Counters appear with the first turn under a limit."

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        names = _load_names(rows)
        for row in super().prepare_rows(request, rows):
            kind, _, key = row.subject.partition(":")
            row.name = f"{kind} {names.get(row.subject) or key[:8]}"
        return rows

    @column("Name")
    def name(self, row: UsageCounter) -> str:
        return row.name  # type: ignore[attr-defined,no-any-return]

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


def _load_names(rows: Iterable[UsageCounter]) -> dict[str, str]:
    """Return the names of the subjects: labels of tokens, names of users, agents."""
    subjects = [row.subject.partition(":")[::2] for row in rows]
    token_ids = [key for kind, key in subjects if kind == "token"]
    tokens = ApiToken.objects.filter(id__in=token_ids)
    users = user_lookup.load_names(live.current())
    return {
        **{f"agent:{key}": key for kind, key in subjects if kind == "agent"},
        **{usage_limits.token_subject(token): token.label for token in tokens},
        **{usage_limits.user_subject(each): name for each, name in users.items()},
    }
