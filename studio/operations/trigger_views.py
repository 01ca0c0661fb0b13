"""Triggers: their next runs, their past runs, and manual runs."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, JsonValue, RootModel
from rest_framework.request import Request
from rest_framework.response import Response

from config import live
from studio.base.views import StudioView
from tasks.config import TASKS
from triggers import trigger_list
from triggers.config import TRIGGERS
from triggers.runs import manual_runs
from triggers.schemas import DetailedTrigger, TriggerList

TRIGGERS_URL = "/admin/triggers"
LIST_RUNS_SHOWN = 10
"""Runs per trigger in the list."""
DETAIL_RUNS_SHOWN = 50
"""Runs on a trigger's own page."""
NEXT_TIMES_SHOWN = 5


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
        triggers = live.current().get(TRIGGERS)
        listed = trigger_list.list_newest_runs(triggers, LIST_RUNS_SHOWN)
        return self.respond(
            to_json(TriggerList(object="list", data=listed)), page=page_context
        )


class TriggerView(StudioView):
    """`/admin/triggers/{name}`."""

    breadcrumbs = [("Triggers", TRIGGERS_URL)]
    template = "studio/operations/trigger.html"

    @extend_schema(summary="Show a trigger", responses=DetailedTrigger)
    def get(self, request: Request, name: str) -> Response:
        """Return a trigger, its prompt and its newest runs."""
        trigger = manual_runs.find_trigger(live.current(), name)
        self.title = trigger.name
        (listed,) = trigger_list.list_newest_runs([trigger], DETAIL_RUNS_SHOWN)
        times = islice(trigger.next_times(datetime.now(UTC)), NEXT_TIMES_SHOWN)
        detail = DetailedTrigger(
            **listed.model_dump(exclude_unset=True),
            prompt=trigger.prompt,
            next_times=[] if listed.paused else list(times),
        )
        return self.respond(to_json(detail), page=page_context)


class RunTriggerView(StudioView):
    """`/admin/triggers/{name}/run`."""

    @extend_schema(summary="Run a trigger", request=TriggerBody, responses=ManualRun)
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Run a trigger now, even a disabled one; a webhook receives the body."""
        body = self.body_data() or {}
        run = manual_runs.run_trigger(live.current(), name, body, self.actor())
        return self.confirm_change(
            ManualRun(trigger=name, task_id=str(run.task_id)).model_dump(),
            message=f"Trigger '{name}' started",
            redirect_to=f"/admin/tasks/{run.task_id}",
        )


def to_json(data: BaseModel) -> dict[str, Any]:
    """Return data without the fields of other types of triggers."""
    return data.model_dump(mode="json", exclude_unset=True)


def page_context() -> dict[str, Any]:
    return {"is_on": live.current().get(TASKS).enabled}
