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
        description="The agent to run, as `model` in a chat request."
    )
    prompt: str = Field(description="The user message for the agent.")
    priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Higher priorities run first; ties run oldest first.",
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=MAX_RETRIES,
        description="Maximum retries after a temporary error. "
        "Default: the server's `tasks.retries`.",
    )
    metadata: Metadata | None = Field(
        default=None, description="As in a chat request: `thread_id`, `language`."
    )
    delay_seconds: float = Field(
        default=0,
        ge=0,
        le=MAX_DELAY_SECONDS,
        description="Delay before the task may run.",
    )


class TasksQuery(CallerQuery):
    """Query of `GET /v1/tasks`."""

    agent: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only tasks of this agent."
    )
    state: TaskState | None = Field(
        default=None, description="Only tasks in this state."
    )
    limit: PageLimit = 20
    after: str | None = Field(
        default=None, description="The `last_id` of the previous page."
    )


# Response models, used only for the API description: `tasks.reports.serializers` writes
# the responses.


class TaskObject(BaseModel):
    id: str = Field(description="A UUID.")
    object: Literal["task"]
    kind: str = Field(description="`agent` for a turn of an agent.")
    state: TaskState
    agent: str
    prompt: str = Field(description="Truncated to 500 characters in lists.")
    result: str | None = Field(
        description="The agent's reply, once the task is done. Truncated to 500 "
        "characters in lists."
    )
    error: str | None = Field(
        description="The last error, if the task failed or will be retried."
    )
    cancel_requested: bool
    priority: int
    attempts: int = Field(description="How often a worker started it.")
    retries: int
    origin: str = Field(description="`api`, `turn:ID` or `trigger:NAME`.")
    metadata: dict[str, str] | None
    turn_id: str | None = Field(description="The turn of the latest attempt.")
    cost_usd: Cost
    request_id: str | None
    due_at: datetime | None = Field(description="The earliest start of a queued task.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TaskList(BaseModel):
    object: Literal["list"]
    data: list[TaskObject]
    has_more: bool
    first_id: str | None
    last_id: str | None
