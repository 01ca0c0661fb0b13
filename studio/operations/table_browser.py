"""The tables as they are, for who debugs: Django's own admin, to be read alone.

What changes rows has rules, which live in the apps; so no row is changed here. Secrets
and what stands for them (digests, sealed texts) are not shown.
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
from smoke.models import SmokeLine, SmokeRun
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
    SmokeLine: ("said_at", "run_id", "position", "speaker", "agent"),
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
    TriggerState: ("name", "schedule", "fired", "missed", "skipped"),
    Turn: ("started_at", "agent", "user_id", "outcome", "seconds", "origin"),
}
"""The columns of each list; the admin takes no table whose key is composite."""
HIDDEN_FIELDS: dict[type[Model], Sequence[str]] = {ApiToken: ("digest",)}


class RowChangeList(ChangeList):
    """A page of a list."""

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: Any = None
    ) -> QuerySet[Model]:
        """Return rows with what is listed of them: the rest may be megabytes."""
        rows: QuerySet[Model] = super().get_queryset(request, exclude_parameters)
        return rows.only(*self.list_display)

    def get_ordering_field(self, field_name: Any) -> None:
        """Return nothing: by what has no index, all rows would be read to sort them."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page's rows."""
        super().get_results(request)
        self.result_list = [redact_row(row) for row in self.result_list]


class ReadOnlyTableAdmin(ModelAdmin):  # type: ignore[misc]  # it has no types
    """Rows to be read, the newest first, and never counted."""

    actions = None
    sortable_by = ()
    ordering = ("-pk",)
    list_per_page = 50
    paginator = InfinitePaginator
    show_full_result_count = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return what makes a page of the list."""
        return RowChangeList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return one row, if it is there."""
        # Django takes `?_to_field=` for the name of a column.
        row = super().get_object(request, object_id, from_field or None)
        if row is None:
            return None
        for field in row._meta.concrete_fields:
            # It is named by what it says.
            other = getattr(row, field.name) if field.is_relation else None
            if other is not None:
                redact_row(other)
        return redact_row(row)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether somebody may change things: they see all that is stored."""
        return site.is_operator(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return the same of the list of tables."""
        return site.is_operator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return that nobody adds rows here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return that nobody changes rows here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return that nobody deletes rows here."""
        return False


def redact_row(row: Model) -> Model:
    """Return a row without what of it is a secret of ours, whoever said it."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)  # None where it was not read.
        if isinstance(value, str):
            setattr(row, field.attname, redaction.redact_own(value))
        elif isinstance(value, dict | list):
            said = redaction.redact_own(orjson.dumps(value).decode())
            setattr(row, field.attname, orjson.loads(said))
    return row


def table_urls() -> Any:
    """Put the tables into the admin, and return its addresses."""
    for model, columns in LIST_COLUMNS.items():
        fields = {"list_display": columns, "exclude": HIDDEN_FIELDS.get(model, ())}
        site.register(
            model, type(f"{model.__name__}Table", (ReadOnlyTableAdmin,), fields)
        )
    return site.urls
