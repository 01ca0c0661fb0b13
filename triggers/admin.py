"""The periodic tasks in the studio: those of agents, and the maintenance jobs."""

from datetime import datetime
from typing import Any, Literal

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.text import Truncator
from django_celery_beat.models import PeriodicTask
from pydantic import BaseModel

from access.users.filters import UserFilter
from admin_base.actions import Outcome, action
from admin_base.columns import column
from admin_base.filters import Filter, TextFilter, TimeFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.templatetags.studio import NO_VALUE, ago, seconds
from config import live
from tasks.admin import StateFilter, TaskAdmin
from triggers.models import PeriodicAgentTask, TriggeredTask, TriggerState
from triggers.runs import trigger_runs
from turns.preparation import routing

NEXT_TIMES_SHOWN = 5
MAX_SUGGESTED = 200
COUNTERS = {"last_run_at", "missed", "missed_at", "run_count", "skipped"}


class ListedPeriodicTask(BaseModel):
    """A periodic agent task, and what came of it."""

    id: int
    name: str
    source: Literal["file", "operator"]
    state: Literal["active", "disabled", "paused"]
    schedule: str
    agent: str
    user: str
    next_at: datetime | None
    last_run_at: datetime | None
    run_count: int
    skipped: int
    missed: int
    missed_at: datetime | None


class DetailedPeriodicTask(ListedPeriodicTask):
    """A periodic agent task with its definition."""

    prompt: str
    thread: str
    cron: str
    time_zone: str
    every_seconds: int | None
    catch_up: Literal["false", "last", "true"]
    learns: bool
    skip_if_running: bool
    enabled: bool


@admin.register(PeriodicAgentTask)
class PeriodicAgentTaskAdmin(StudioModelAdmin):
    """Agents that run on a schedule: crons of the YAML, and tasks of operators."""

    path = "periodic-tasks"
    title = "Periodic tasks"
    lead = (
        "Agents that run on a schedule. You can pause crons of coulisse.yaml here, and "
        "add further tasks."
    )
    empty_text = "Add one here, or a cron under triggers: in coulisse.yaml."
    icon = "event_repeat"
    links = [
        ("Trigger runs", "/admin/trigger-runs"),
        ("Maintenance jobs", "/admin/maintenance-jobs"),
    ]
    list_display = ["name", "times", "agent", "source", "next_run", "last_run", "runs"]
    list_filter = ["source", "is_paused", "enabled", TextFilter.of("agent")]
    search_fields = ["name"]
    ordering = ["name"]
    column_classes = {"name": "long", "agent": "is-wide", "source": "is-wide"}
    actions = ["run", "pause", "resume"]
    is_editable = can_add = can_delete = True
    fields = [
        "name",
        "agent",
        "prompt",
        "user",
        "thread",
        "cron",
        "time_zone",
        "every_seconds",
        "catch_up",
        "learns",
        "skip_if_running",
        "enabled",
        "state",
        "source",
        "next_runs",
        "last_run",
        "runs",
    ]
    readonly_fields = ["state", "source", "next_runs", "last_run", "runs"]
    audit_noun = "periodic_task"
    schema = DetailedPeriodicTask
    row_schema = ListedPeriodicTask

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        states = TriggerState.objects.in_bulk([row.name for row in rows])
        for row in rows:
            row.counters = states.get(row.name)
        return super().prepare_rows(request, rows)

    # Crons of the YAML are read-only.

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_fixed = obj is not None and obj.is_from_file
        return not is_fixed and bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_fixed = obj is not None and obj.is_from_file
        return not is_fixed and super().has_delete_permission(request, obj)

    def get_deleted_objects(self, objs: Any, request: Any) -> Any:
        """Require no permission for the base rows of deleted ones."""
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)
        return shown, counts, needed - {PeriodicTask._meta.verbose_name}, protected

    def formfield_for_dbfield(self, field: Any, request: Any, **options: Any) -> Any:
        """Return the field of a form; the agent is one of those that exist."""
        if field.name == "agent":
            names = routing.list_names(live.current())
            return forms.ChoiceField(choices=[(name, name) for name in names])
        if field.name == "name":
            options["help_text"] = "The unique name, in logs and lists."
        return super().formfield_for_dbfield(field, request, **options)

    def serialize_row(self, row: Any, schema: Any) -> dict[str, Any]:
        """Return a row with its counters, whose last run is not the row's position."""
        values = {
            name: getattr(row, name) for name in schema.model_fields.keys() - COUNTERS
        }
        values |= {name: getattr(counters_of(row), name) for name in COUNTERS}
        values["schedule"] = str(row.times)
        data: dict[str, Any] = schema(**values).model_dump()
        return data

    def audit_target(self, row: PeriodicAgentTask) -> str:
        return row.name

    @action("Run now", audit="periodic_task.run")
    def run(self, request: HttpRequest, row: PeriodicAgentTask) -> Outcome:
        task = str(row.run_now().task_id)
        return Outcome(details={"task": task}, message=f"'{row.name}' started")

    @action(
        "Pause",
        audit="periodic_task.pause",
        is_available=lambda row: not row.is_paused,
    )
    def pause(self, request: HttpRequest, row: PeriodicAgentTask) -> bool:
        return row.pause()

    @action(
        "Resume", audit="periodic_task.resume", is_available=lambda row: row.is_paused
    )
    def resume(self, request: HttpRequest, row: PeriodicAgentTask) -> bool:
        return row.resume()

    @column("Schedule")
    def times(self, row: PeriodicAgentTask) -> Any:
        return format_html("<code>{}</code>", row.times)

    @column("Next run", css="number")
    def next_run(self, row: PeriodicAgentTask) -> Any:
        return ago(row.next_at) if row.next_at else row.state

    @column("Next runs")
    def next_runs(self, row: PeriodicAgentTask) -> Any:
        times = list(row.next_times(NEXT_TIMES_SHOWN)) if row.pk else []
        shown = ((ago(at), f"{at:%a %Y-%m-%d %H:%M:%S} UTC") for at in times)
        return format_html_join(mark_safe("<br>"), "{} {}", shown) or "none"

    @column("Last run", css="number is-wide")
    def last_run(self, row: Any) -> Any:
        at = counters_of(row).last_run_at
        return ago(at) if at else "never"

    @column("Runs", css="number is-wide")
    def runs(self, row: Any) -> Any:
        counters = counters_of(row)
        parts = (
            f", {count} {name}"
            for name in ("missed", "skipped")
            if (count := getattr(counters, name))
        )
        return f"{counters.run_count}{''.join(parts)}"


def counters_of(row: Any) -> TriggerState:
    """Return the counters of a periodic task; lists have read them."""
    if not hasattr(row, "counters"):
        row.counters = TriggerState.objects.filter(name=row.name).first()
    return row.counters or TriggerState(name=row.name)


class TriggerFilter(Filter):
    """Runs of a trigger or periodic task."""

    parameter = "trigger"
    title = "Trigger"

    def suggestions(self) -> list[str]:
        return list(TriggerState.objects.values_list("name", flat=True)[:MAX_SUGGESTED])

    def apply(self, queryset: Any, value: str) -> Any:
        return queryset.of_origin(trigger_runs.task_origin(value))


@admin.register(TriggeredTask)
class TriggerRunAdmin(TaskAdmin):
    """The tasks that triggers have started, newest first."""

    path = "trigger-runs"
    title = "Trigger runs"
    icon = "schedule"
    links = [("Triggers", "/admin/triggers")]
    empty_text = "Crons, webhooks and server starts create them; so does “Run now”."
    list_display = ["trigger", "state_shown", "agent", "duration", "cost", "created_at"]
    column_classes = {"agent": "long is-wide", "created_at": "number"}
    list_filter = [TimeFilter.of("created_at"), StateFilter, TriggerFilter, UserFilter]

    @column("Trigger", css="identity")
    def trigger(self, row: Any) -> Any:
        text = Truncator(row.error).chars(110)
        error = format_html('<br><small class="is-bad">{}</small>', text)
        return format_html("{}{}", row.trigger, error if row.error else "")

    @column("Duration", css="number is-wide")
    def duration(self, row: Any) -> Any:
        if row.started_at is None or row.finished_at is None:
            return NO_VALUE
        return seconds((row.finished_at - row.started_at).total_seconds())


@admin.register(PeriodicTask)
class MaintenanceJobAdmin(StudioModelAdmin):
    """The maintenance jobs, which beat sends to workers."""

    path = "maintenance-jobs"
    title = "Maintenance jobs"
    lead = "Jobs of the system, which beat sends to a worker."
    icon = "manufacturing"
    list_display = ["name", "times", "job", "last_sent", "runs"]
    fields = [*list_display, "expire_seconds", "description"]
    list_select_related = ["interval"]
    ordering = ["name"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(periodicagenttask=None)

    @column("Schedule")
    def times(self, row: PeriodicTask) -> str:
        return str(row.scheduler)

    @column("Celery task", css="long is-wide")
    def job(self, row: PeriodicTask) -> str:
        return row.task

    @column("Last sent")
    def last_sent(self, row: PeriodicTask) -> Any:
        return ago(row.last_run_at) if row.last_run_at else "never"

    @column("Runs", css="number is-wide")
    def runs(self, row: PeriodicTask) -> int:
        return row.total_run_count
