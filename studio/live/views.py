"""The live page and the same state for scripts."""

from datetime import datetime
from typing import Literal

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from core.trace import ToolKind
from studio.base.views import StudioView
from studio.live import broadcaster, recent_activity
from studio.live.recent_activity import EndedTurn
from studio.live.task_queue import TaskQueueState


class CurrentStep(BaseModel):
    """The step that a turn waits for."""

    kind: Literal["start", "model", "tools", "end"]
    names: list[str] = Field(description="The model, or the running tools.")
    since: datetime


class RunningCall(BaseModel):
    """A tool call of a running turn."""

    id: str
    name: str
    kind: ToolKind
    target: str | None
    started_at: datetime
    seconds: float | None
    state: Literal["error", "ok", "running"]
    error: str | None
    current_step: CurrentStep | None = Field(
        description="The step of a running subagent; null for other tools."
    )
    tool_calls: int
    calls: "list[RunningCall]" = Field(description="The calls of a subagent.")


class RunningTurn(BaseModel):
    """A running turn."""

    id: str
    object: Literal["turn.running"] = "turn.running"
    user_id: str
    thread_id: str | None
    agent: str
    experiment: str | None
    origin: Literal["chat", "task", "smoke", "shadow"]
    user_message: str = Field(description="The first 200 characters.")
    stream: bool
    started_at: datetime
    current_step: CurrentStep
    model_calls: int
    tool_calls: int
    calls: list[RunningCall] = Field(description="The newest 50 tool calls.")


class LiveState(BaseModel):
    """The current activity."""

    object: Literal["live"] = "live"
    turns: list[RunningTurn]
    count: int = Field(
        description="All running turns, including those not listed in `turns`."
    )
    processes: int = Field(description="Processes reporting.")
    finished: list[EndedTurn]
    tasks: TaskQueueState


class LiveView(StudioView):
    """Running turns, turns that ended recently, and the queue."""

    title = "Live"
    template = "studio/monitoring/live.html"

    @extend_schema(
        summary="Show current activity",
        description="Running turns, recently ended turns, and the task queue. The "
        "websocket at `/admin/live/events` sends each change.",
        responses=LiveState,
    )
    def get(self, request: Request) -> Response:
        return self.respond(
            {"object": "live", **broadcaster.poll(), **recent_activity.load_latest()}
        )


class LiveEventsView(StudioView):
    """The address of the websocket; `LiveSocket` serves upgrade requests."""

    schema = None

    def get(self, request: Request) -> HttpResponse:
        text = "This is a websocket. GET /admin/live returns the same state once.\n"
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return HttpResponse(
            text, status=426, content_type="text/plain", headers=headers
        )
