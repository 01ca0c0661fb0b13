"""Triggers: when they fire next, what came of them, and firing one by hand."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field, JsonValue, RootModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import Deed
from config import live
from studio.base.views import Face
from tasks.config import TASKS
from tasks.queue import worker_notifier
from triggers.config import TRIGGERS, AnyTrigger, CronTrigger, WebhookTrigger
from triggers.reports import recent_runs, terminal, trigger_status
from triggers.runs import manual_runs
from triggers.runs.trigger_runs import Firing

PLACE = "/admin/triggers"
FEW = 10
"""Runs of each in the list."""
MANY = 50
"""Runs of one."""
TIMES = 5


class Run(BaseModel):
    """One of a trigger's tasks."""

    id: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Trigger(BaseModel):
    """A trigger as the YAML has it, and what came of it; never its secret."""

    name: str
    type: Literal["boot", "cron", "webhook"]
    agent: str
    enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    fired: int
    skipped: int
    repeated: int
    missed: int
    missed_at: datetime | None
    user: str | None
    thread: str | None
    learns: bool
    skip_if_running: bool
    has_secret: bool
    last_runs: list[Run]
    schedule: str | None = Field(None, description="A cron's, as the next two.")
    time_zone: str | None = None
    catch_up: bool | Literal["last"] | None = None
    path: str | None = Field(None, description="A webhook's, as those below.")
    signature: Literal["github", "header", "slack"] | None = None
    header: str | None = None
    max_body_bytes: int | None = None


class OneOfThem(Trigger):
    """A trigger with its prompt and the times it fires next."""

    prompt: str
    next_times: list[datetime]


class TriggerList(BaseModel):
    """The triggers of the YAML, in its order."""

    object: Literal["list"] = "list"
    data: list[Trigger]


class Body(RootModel[JsonValue]):
    """What a webhook is sent, whatever that is; the others take none."""


class Fired(BaseModel):
    """What firing a trigger began."""

    object: Literal["trigger.firing"] = "trigger.firing"
    trigger: str
    task_id: str


class Triggers(Face):
    """`/admin/triggers`."""

    title = "Triggers"
    template = "studio/triggers.html"

    @extend_schema(summary="List triggers", responses=TriggerList)
    def get(self, request: Request) -> Response:
        """List the triggers of the YAML with their newest runs."""
        told = tell(live.current().get(TRIGGERS), FEW)
        return self.respond({"object": "list", "data": told}, page=shown)


class OneTrigger(Face):
    """`/admin/triggers/{name}`."""

    breadcrumbs = [("Triggers", PLACE)]
    template = "studio/trigger.html"

    @extend_schema(summary="Show a trigger", responses=OneOfThem)
    def get(self, request: Request, name: str) -> Response:
        """Return a trigger, its prompt and its newest runs."""
        trigger = manual_runs.named(live.current(), name)
        self.title = trigger.name
        (told,) = tell([trigger], MANY)
        more = {"prompt": trigger.prompt, "next_times": next_times(trigger)}
        return self.respond({**told, **more}, page=shown)


class Firings(Face):
    """`/admin/triggers/{name}/fire`."""

    @extend_schema(summary="Fire a trigger", request=Body, responses=Fired)
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Have it run now, also where it is off; a webhook is sent the body."""
        occasion = manual_runs.occasion(live.current(), name, self.body_data() or {})

        def deed(firing: Firing) -> Deed:
            details = {"task": str(firing.task_id)}
            return Deed("trigger.fire", self.actor(), name, details)

        firing = audit_log.recorded(deed, manual_runs.fire, occasion)
        worker_notifier.soon()
        told = Fired(trigger=name, task_id=str(firing.task_id)).model_dump()
        place = f"/admin/tasks/{firing.task_id}"
        return self.confirm_change(told, said=f"Fired '{name}'", to=place)


def tell(listed: list[AnyTrigger], runs: int) -> list[dict[str, Any]]:
    """Tell triggers with so many of their newest runs, in three statements."""
    newest = recent_runs.newest([trigger.name for trigger in listed], runs)
    return [
        {
            **terminal.without_runs(page),
            "last_runs": newest.get(page.trigger.name, []),
            "has_secret": isinstance(page.trigger, WebhookTrigger)
            and page.trigger.secret is not None,
        }
        for page in trigger_status.uncounted(listed, datetime.now(UTC))
    ]


def next_times(trigger: AnyTrigger) -> list[datetime]:
    """Return the next few times a cron fires, if it does."""
    if not isinstance(trigger, CronTrigger) or not trigger.enabled:
        return []
    return list(islice(trigger.times.after(datetime.now(UTC)), TIMES))


def shown() -> dict[str, Any]:
    """Return what the page says beside the triggers."""
    return {"is_on": live.current().get(TASKS).enabled}
