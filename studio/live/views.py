"""The live page and the same state for scripts."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from core.trace import ToolKind
from studio.base.views import StudioView
from studio.live import broadcaster, recent_activity
from studio.monitoring.turn_views import StudioListedTurn


class CurrentStep(BaseModel):
    """The step that a turn waits for."""

    what: Literal["start", "model", "tools", "end"]
    names: list[str]
    since: datetime


class RunningCall(BaseModel):
    """A running tool call of a turn."""

    id: str
    name: str
    kind: ToolKind
    target: str | None
    started_at: datetime
    seconds: float | None
    state: Literal["error", "ok", "running"]
    error: str | None
    doing: CurrentStep | None = Field(description="Of an agent that was called.")
    tool_calls: int
    calls: "list[RunningCall]" = Field(description="Those within it.")


class RunningTurn(BaseModel):
    """A running turn."""

    id: str
    object: Literal["turn.running"] = "turn.running"
    user_id: str
    thread_id: str | None
    agent: str
    experiment: str | None
    origin: Literal["chat", "task", "smoke", "shadow"]
    user_message: str = Field(description="The first words of it.")
    stream: bool
    started_at: datetime
    doing: CurrentStep
    model_calls: int
    tool_calls: int
    calls: list[RunningCall] = Field(description="Tool calls, the newest fifty.")


class EndedTurn(StudioListedTurn):
    """A turn that has ended."""

    ended_at: datetime


class QueuedTask(BaseModel):
    """A task, in short."""

    id: UUID
    object: Literal["task"]
    kind: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    agent: str
    user_id: UUID
    prompt: str
    error: str | None
    origin: str
    turn_id: UUID | None
    attempts: int
    cancel_requested: bool
    due_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    since: datetime | None = Field(description="How long it is in this state.")


class TaskQueueState(BaseModel):
    """The state of the task queue."""

    counts: dict[str, int]
    more: bool = Field(description="Whether there are more than were counted.")
    open: list[QueuedTask]
    ended: list[QueuedTask]


class LiveState(BaseModel):
    """The current activity."""

    object: Literal["live"] = "live"
    turns: list[RunningTurn]
    count: int = Field(description="How many run, those included that are not told of.")
    processes: int = Field(description="How many were heard of.")
    finished: list[EndedTurn]
    tasks: TaskQueueState


class LiveView(StudioView):
    """Running turns, turns that ended recently, and the queue."""

    title = "Live"
    template = "studio/monitoring/live.html"

    @extend_schema(
        summary="Show what happens now",
        description="Turns that run, what ended lately, and the queue; the websocket "
        "at `/admin/live/events` tells of each change.",
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
        said = "This address is a websocket: GET /admin/live is the same for once.\n"
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return HttpResponse(
            said, status=426, content_type="text/plain", headers=headers
        )
