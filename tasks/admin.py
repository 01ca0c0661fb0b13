"""Background tasks in the studio."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.text import Truncator

from access.users.filters import UserFilter
from access.users.model_admin import UserModelAdmin
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, TimeFilter
from admin_base.templatetags.studio import usd
from core import ids
from core.runtime import shared_clock
from tasks.errors import TaskUnknown
from tasks.models import Task
from tasks.queue import task_kinds
from tasks.schemas import COLOURS, StudioListedTask, StudioTask
from telemetry.admin import AgentFilter


class StateFilter(ChoiceFilter):
    parameter = "state"
    title = "State"

    def apply(self, queryset: Any, value: str) -> Any:
        super().apply(queryset, value)  # Checks the value.
        return queryset.in_states([value])


class KindFilter(ChoiceFilter):
    """Tasks of a kind; without a value, all but extractions."""

    parameter = "kind"
    title = "Kind"
    description = "Extractions are listed only with `extraction`."

    @property
    def options(self) -> Sequence[str]:  # type: ignore[override]  # read late
        """The kinds of the settings."""
        return task_kinds.names()

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return super().queryset(request, queryset.of_kind(self.value or None))


@admin.register(Task)
class TaskAdmin(UserModelAdmin):
    """Background tasks, newest first."""

    path = "tasks"
    title = "Tasks"
    icon = "checklist"
    links = [("Live", "/admin/live")]
    empty_text = (
        "Clients create them with POST /v1/tasks and agents with task tools. Triggers, "
        "judges and experiments create them, too."
    )
    list_display = [
        "task",
        "state_shown",
        "requested_by",
        "user",
        "attempts",
        "cost",
        "created_at",
    ]
    column_classes = {"attempts": "number is-wide", "created_at": "number"}
    list_filter = [
        TimeFilter.of("created_at"),
        StateFilter,
        KindFilter,
        AgentFilter.of("agent"),
        UserFilter,
    ]
    ordering = ["-created_at"]
    fieldsets = [
        (
            "Task",
            {
                "fields": [
                    "kind",
                    "agent_link",
                    "user",
                    "requested_by",
                    "attempts",
                    "retries",
                    "priority",
                    "cost",
                    "created_at",
                    "started_at",
                    "finished_at",
                    "worker",
                    "request_id",
                    "metadata",
                    "id",
                ]
            },
        )
    ]
    detail_template = "studio/tasks/detail.html"
    schema = StudioTask
    row_schema = StudioListedTask
    actions = ["cancel", "retry"]

    def find_row(self, request: HttpRequest, id: str) -> Task:
        task_id = ids.parse_uuid(id)
        task: Task | None = self.get_queryset(request).filter(pk=task_id).first()
        if task_id is None or task is None:
            raise TaskUnknown
        return task

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        return super().prepare_rows(request, Task.objects.load_costs(rows))

    def row_title(self, row: Task) -> str:
        return f"Task of {row.agent}"

    def detail_context(self, request: HttpRequest, row: Task) -> dict[str, Any]:
        """Return what the page shows of the state; it changes with `revision`."""
        fields = ("state", "attempts", "is_cancelled", "turn_id", "cost_micro_usd")
        return {
            "colour": COLOURS[row.state],
            "is_due": row.due_at <= shared_clock.now(),
            "revision": " ".join(str(getattr(row, name)) for name in fields),
        }

    @action(
        "Cancel",
        audit="task.cancel",
        confirm="A running task stops within a second.",
        is_dangerous=True,
        is_available=lambda task: task.is_open,
    )
    def cancel(self, request: HttpRequest, row: Task) -> Outcome:
        is_new = row.cancel()
        state = self.find_row(request, str(row.pk)).state
        messages = {"running": "Cancellation requested", "cancelled": "Task cancelled"}
        return Outcome(
            is_new, message=messages.get(state, f"The task is already {state}")
        )

    @action(
        "Retry",
        audit="task.retry",
        confirm="A task that is done runs again as a new task.",
        is_available=lambda task: task.is_repeatable,
        status=202,
    )
    def retry(self, request: HttpRequest, row: Task) -> Outcome:
        queued = self.find_row(request, str(row.retry().pk))
        return Outcome(
            details={"as": str(queued.pk)}, message="Queued again", row=queued
        )

    # Columns.

    @column("Task", css="identity")
    def task(self, row: Task) -> Any:
        text = Truncator(row.error or row.prompt).chars(110)
        css = "is-bad" if row.error else "muted"
        return format_html(
            '{} <small class="muted">{}</small><br><small class="{}">{}</small>',
            row.agent,
            row.kind,
            css,
            text,
        )

    @column("State")
    def state_shown(self, row: Task) -> Any:
        badge = '<span class="badge {}">{}</span>'
        return format_html(badge, COLOURS[row.state], row.state)

    @column("Requested by", css="is-wide")
    def requested_by(self, row: Task) -> Any:
        kind, _, name = row.origin.partition(":")
        quoted = quote(name, safe="")
        match kind:
            case "api":
                return "a client"
            case "turn":
                return link(f"/admin/turns/{quoted}", "a turn")
            case "trigger":
                return link(f"/admin/triggers/{quoted}", name)
            case "smoke":
                shown = link(f"/admin/smoke/{quoted}", name)
                return format_html("smoke test {}", shown)
        return row.origin or "the server"

    @column("Agent")
    def agent_link(self, row: Task) -> Any:
        return link(f"/admin/agents/{quote(row.agent, safe='')}", row.agent)

    @column("Cost", css="number is-wide")
    def cost(self, row: Task) -> str:
        return usd(row.cost_micro_usd)
