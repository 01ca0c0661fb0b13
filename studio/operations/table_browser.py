"""A read-only view of the database tables, for debugging, in Django's admin.

It is read-only because the apps enforce rules on rows. It hides secrets and their
representations (digests, encrypted texts).
"""

from collections.abc import Sequence
from typing import Any

import orjson
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from access.models import ApiToken, AuditEntry
from config.models import Override, OverrideVersion
from core.text import redaction
from judges.models import Feedback, Score
from memory.models import (
    ConsolidationRun,
    ExtractionJob,
    Fact,
    FactChange,
    StoredMessage,
    Summary,
)
from memory.models import Thread as MemoryThread
from smoke.models import SmokeMessage, SmokeRun
from studio.base.admin_site import site
from tasks.models import Task
from telemetry.models import Expense, ModelCall, ToolCall, Turn
from triggers.models import ServerStart, TriggerState

LIST_COLUMNS: dict[type[Model], Sequence[str]] = {
    AuditEntry: ("at", "action", "target", "actor", "origin"),
    ConsolidationRun: ("started_at", "finished_at", "threads", "messages", "failures"),
    Expense: ("spent_at", "purpose", "name", "agent", "model", "cost_micro_usd"),
    Fact: ("id", "user_id", "category", "status", "importance", "source"),
    FactChange: ("at", "user_id", "action", "by", "reason"),
    Feedback: ("updated_at", "user_id", "agent", "score", "thumb"),
    ExtractionJob: ("due_at", "user_id", "agent", "state", "attempts", "error"),
    SmokeMessage: ("sent_at", "run_id", "position", "speaker", "agent"),
    MemoryThread: ("updated_at", "user_id", "name", "length"),
    StoredMessage: ("id", "thread_id", "position", "role", "agent", "tokens"),
    ModelCall: ("started_at", "turn_id", "agent", "provider", "model", "seconds"),
    Override: ("section", "name", "is_tombstone", "changed_at", "changed_by"),
    OverrideVersion: ("at", "section", "name", "action", "by"),
    SmokeRun: ("id", "test", "target", "repetition", "state", "origin"),
    Score: ("judged_at", "judge", "criterion", "value", "agent", "turn_id"),
    ServerStart: ("started_at", "heartbeat_at", "worker_count"),
    Summary: ("created_at", "user_id", "first_position", "end_position", "model"),
    Task: ("id", "kind", "agent", "state", "user_id", "attempts"),
    ApiToken: ("created_at", "label", "principal", "budget", "revoked_at"),
    ToolCall: ("started_at", "turn_id", "kind", "name", "seconds", "error"),
    TriggerState: ("name", "schedule", "run_count", "missed", "skipped"),
    Turn: ("started_at", "agent", "user_id", "outcome", "seconds", "origin"),
}
"""The columns of each list; the admin supports no composite keys."""
HIDDEN_FIELDS: dict[type[Model], Sequence[str]] = {ApiToken: ("digest",)}


class RowChangeList(ChangeList):
    """One page of a list."""

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: Any = None
    ) -> QuerySet[Model]:
        """Return rows with the listed columns only: the others may be megabytes."""
        rows: QuerySet[Model] = super().get_queryset(request, exclude_parameters)
        return rows.only(*self.list_display)

    def get_ordering_field(self, field_name: Any) -> None:
        """Return no ordering: sorting by a column without an index would read all
        rows."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page's rows."""
        super().get_results(request)
        self.result_list = [redact_row(row) for row in self.result_list]


class ReadOnlyTableAdmin(ModelAdmin):  # type: ignore[misc]  # it has no types
    """Read-only rows, newest first, without a count."""

    actions = None
    sortable_by = ()
    ordering = ("-pk",)
    list_per_page = 50
    paginator = InfinitePaginator
    show_full_result_count = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the class of the list page."""
        return RowChangeList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return one row, if it exists."""
        # Django reads `?_to_field=` as the name of a column.
        row = super().get_object(request, object_id, from_field or None)
        if row is None:
            return None
        for field in row._meta.concrete_fields:
            # The title of the page contains the related row's text.
            other = getattr(row, field.name) if field.is_relation else None
            if other is not None:
                redact_row(other)
        return redact_row(row)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user is an operator, because rows show all stored data."""
        return site.is_operator(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return the same for the list of tables."""
        return site.is_operator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: rows are read-only."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: rows are read-only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: rows are read-only."""
        return False


def redact_row(row: Model) -> Model:
    """Return a row with our own secrets redacted, whatever their source."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)  # None for a deferred field.
        if isinstance(value, str):
            setattr(row, field.attname, redaction.redact_own(value))
        elif isinstance(value, dict | list):
            text = redaction.redact_own(orjson.dumps(value).decode())
            setattr(row, field.attname, orjson.loads(text))
    return row


def table_urls() -> Any:
    """Register the tables in the admin, and return their URLs."""
    for model, columns in LIST_COLUMNS.items():
        fields = {"list_display": columns, "exclude": HIDDEN_FIELDS.get(model, ())}
        site.register(
            model, type(f"{model.__name__}Table", (ReadOnlyTableAdmin,), fields)
        )
    return site.urls
