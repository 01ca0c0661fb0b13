"""Requests of the tasks API; `tasks.schemas` has the responses."""

from typing import Annotated

from pydantic import AfterValidator, Field

from access.users.list_queries import ListQuery
from access.users.request_user import CallerBody
from api_base.field_types import Metadata, refuse_nul
from tasks.config import MAX_RETRIES
from tasks.schemas import TaskState
from turns.agent_tasks.task_requests import MAX_DELAY_SECONDS, MAX_PRIORITY


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


class TasksQuery(ListQuery):
    """Query of `GET /v1/tasks`."""

    agent: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only tasks of this agent."
    )
    state: TaskState | None = Field(
        default=None, description="Only tasks in this state."
    )
