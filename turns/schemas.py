"""Pydantic models of the requests and responses of the tasks API."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from access.users.request_user import CallerBody, CallerQuery
from api_base.field_types import Metadata, PageLimit, refuse_nul
from tasks.config import MAX_RETRIES
from telemetry.schemas import Cost
from turns.agent_tasks.task_requests import MAX_DELAY_SECONDS, MAX_PRIORITY

TaskState = Literal["queued", "running", "done", "errored", "cancelled"]


class NewTask(CallerBody):
    """Body of `POST /v1/tasks`."""

    agent: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        description="Which agent works: what a chat calls `model`."
    )
    prompt: str = Field(description="What it is told.")
    priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="The highest is taken first; of equals, the oldest.",
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=MAX_RETRIES,
        description="How often it is tried again after an error that may pass. "
        "Unset: as the server's `tasks.retries` says.",
    )
    metadata: Metadata | None = Field(
        default=None, description="As a chat's: `thread_id`, `language` and so on."
    )
    delay_seconds: float = Field(
        default=0, ge=0, le=MAX_DELAY_SECONDS, description="How long it waits first."
    )


class TasksQuery(CallerQuery):
    """Query of `GET /v1/tasks`."""

    agent: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only this agent's."
    )
    state: TaskState | None = Field(
        default=None, description="Only those in this state."
    )
    limit: PageLimit = 20
    after: str | None = Field(
        default=None, description="The `last_id` of the page before."
    )


# Response models, used only for the API description: `tasks.reports.serializers` writes
# the responses.


class TaskObject(BaseModel):
    id: str = Field(description="A UUID.")
    object: Literal["task"]
    kind: str = Field(description="`agent`: a turn of one.")
    state: TaskState
    agent: str
    prompt: str = Field(description="Lists have the first 500 characters.")
    result: str | None = Field(
        description="What the agent said, once it is done. Lists have the first 500 "
        "characters."
    )
    error: str | None = Field(
        description="Why it is errored, or why it is being tried again."
    )
    cancel_requested: bool
    priority: int
    attempts: int = Field(description="How often a worker began with it.")
    retries: int
    origin: str = Field(description="`api`, `turn:ID` or `trigger:NAME`.")
    metadata: dict[str, str] | None
    turn_id: str | None = Field(description="The turn of its newest attempt.")
    cost_usd: Cost
    request_id: str | None
    due_at: datetime | None = Field(
        description="When it may be taken, as long as it is queued."
    )
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TaskList(BaseModel):
    object: Literal["list"]
    data: list[TaskObject]
    has_more: bool
    first_id: str | None
    last_id: str | None
