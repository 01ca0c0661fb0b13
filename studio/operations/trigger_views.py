"""Triggers: their next runs, their past runs, and manual runs."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field, JsonValue, RootModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from studio.base.views import StudioView
from tasks.config import TASKS
from tasks.queue import worker_notifier
from triggers.config import TRIGGERS, AnyTrigger, CronTrigger, WebhookTrigger
from triggers.reports import recent_runs, terminal, trigger_status
from triggers.runs import manual_runs
from triggers.runs.trigger_runs import TriggerRun

TRIGGERS_URL = "/admin/triggers"
LIST_RUNS_SHOWN = 10
"""Runs per trigger in the list."""
DETAIL_RUNS_SHOWN = 50
"""Runs on a trigger's own page."""
NEXT_TIMES_SHOWN = 5


class TriggerTask(BaseModel):
    """One of a trigger's tasks."""

    id: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ListedTrigger(BaseModel):
    """A trigger with its last runs, without its secret."""

    name: str
    type: Literal["boot", "cron", "webhook"]
    agent: str
    enabled: bool
    next_at: datetime | None
    last_run_at: datetime | None
    run_count: int
    skipped: int
    repeated: int
    missed: int
    missed_at: datetime | None
    user: str | None
    thread: str | None
    learns: bool
    skip_if_running: bool
    has_secret: bool
    last_runs: list[TriggerTask]
    schedule: str | None = Field(None, description="For `cron`.")
    time_zone: str | None = Field(None, description="For `cron`.")
    catch_up: bool | Literal["last"] | None = Field(None, description="For `cron`.")
    path: str | None = Field(None, description="For `webhook`.")
    signature: Literal["github", "header", "slack"] | None = Field(
        None, description="For `webhook`."
    )
    header: str | None = Field(None, description="For `webhook`.")
    max_body_bytes: int | None = Field(None, description="For `webhook`.")


class DetailedTrigger(ListedTrigger):
    """A trigger with its prompt and its next run times."""

    prompt: str
    next_times: list[datetime]


class TriggerList(BaseModel):
    """The triggers, in the order of the YAML."""

    object: Literal["list"] = "list"
    data: list[ListedTrigger]


class TriggerBody(RootModel[JsonValue]):
    """The JSON body for a webhook; other triggers take none."""


class ManualRun(BaseModel):
    """The result of a manual run."""

    object: Literal["trigger.run"] = "trigger.run"
    trigger: str
    task_id: str


class TriggerListView(StudioView):
    """`/admin/triggers`."""

    title = "Triggers"
    template = "studio/operations/triggers.html"

    @extend_schema(summary="List triggers", responses=TriggerList)
    def get(self, request: Request) -> Response:
        """List triggers with their newest runs."""
        data = serialize_triggers(live.current().get(TRIGGERS), LIST_RUNS_SHOWN)
        return self.respond({"object": "list", "data": data}, page=page_context)


class TriggerView(StudioView):
    """`/admin/triggers/{name}`."""

    breadcrumbs = [("Triggers", TRIGGERS_URL)]
    template = "studio/operations/trigger.html"

    @extend_schema(summary="Show a trigger", responses=DetailedTrigger)
    def get(self, request: Request, name: str) -> Response:
        """Return a trigger, its prompt and its newest runs."""
        trigger = manual_runs.find_trigger(live.current(), name)
        self.title = trigger.name
        (data,) = serialize_triggers([trigger], DETAIL_RUNS_SHOWN)
        data |= {"prompt": trigger.prompt, "next_times": next_run_times(trigger)}
        return self.respond(data, page=page_context)


class RunTriggerView(StudioView):
    """`/admin/triggers/{name}/run`."""

    @extend_schema(summary="Run a trigger", request=TriggerBody, responses=ManualRun)
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Run a trigger now, even a disabled one; a webhook receives the body."""
        event = manual_runs.build_event(live.current(), name, self.body_data() or {})

        def audit_event(run: TriggerRun) -> AuditEvent:
            details = {"task": str(run.task_id)}
            return AuditEvent("trigger.run", self.actor(), name, details)

        run = audit_log.run_recorded(audit_event, manual_runs.run_trigger, event)
        worker_notifier.notify()
        return self.confirm_change(
            ManualRun(trigger=name, task_id=str(run.task_id)).model_dump(),
            message=f"Trigger '{name}' started",
            redirect_to=f"/admin/tasks/{run.task_id}",
        )


def serialize_triggers(listed: list[AnyTrigger], runs: int) -> list[dict[str, Any]]:
    """Return triggers with their newest runs, at most `runs` each; in three queries."""
    newest = recent_runs.newest_runs([trigger.name for trigger in listed], runs)
    return [
        {
            **terminal.as_json_without_runs(status),
            "last_runs": newest.get(status.trigger.name, []),
            "has_secret": isinstance(status.trigger, WebhookTrigger)
            and status.trigger.secret is not None,
        }
        for status in trigger_status.list_without_runs(listed, datetime.now(UTC))
    ]


def next_run_times(trigger: AnyTrigger) -> list[datetime]:
    """Return the next run times of an enabled cron trigger."""
    if not isinstance(trigger, CronTrigger) or not trigger.enabled:
        return []
    return list(islice(trigger.times.after(datetime.now(UTC)), NEXT_TIMES_SHOWN))


def page_context() -> dict[str, Any]:
    """Return the additional context of the page."""
    return {"is_on": live.current().get(TASKS).enabled}
