"""The shapes of a task, for users and for operators."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from api_base.field_types import NullIfEmpty
from api_base.pagination import ListPage
from core.errors import public_text
from core.text.sanitization import truncate
from telemetry.schemas import Cost

MAX_LISTED = 500
"""Maximum characters of a text in lists."""

COLOURS = {
    "queued": "",
    "running": "is-accent",
    "done": "is-good",
    "errored": "is-bad",
    "cancelled": "is-warn",
}
"""CSS classes of the states in the studio."""

TaskState = Literal["queued", "running", "done", "errored", "cancelled"]


ListedText = Annotated[
    str,
    AfterValidator(lambda text: truncate(text, MAX_LISTED)),
    Field(description="The first 500 characters."),
]
PublicError = Annotated[
    str | None, BeforeValidator(lambda text: public_text(text or "") or None)
]


class TaskObject(BaseModel):
    """A background task, after `Task.objects.load_costs`."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    id: UUID
    object: Literal["task"] = "task"
    kind: str = Field(description="`agent` for a turn of an agent.")
    state: TaskState
    agent: str
    prompt: str
    result: str | None = Field(description="The agent's reply, once the task is done.")
    error: PublicError = Field(
        description="The last error, if the task failed or will be retried."
    )
    cancel_requested: bool = Field(validation_alias="is_cancelled")
    priority: int
    attempts: int = Field(description="How often a worker started it.")
    retries: int
    origin: str = Field(description="`api`, `turn:ID` or `trigger:NAME`.")
    metadata: dict[str, str] | None
    turn_id: UUID | None = Field(description="The turn of the latest attempt.")
    cost_usd: Cost
    request_id: NullIfEmpty
    due_at: datetime | None = Field(description="The earliest start of a queued task.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @model_validator(mode="after")
    def _hide_inapplicable(self) -> Self:
        """Hide partial results, and the times of leases."""
        if self.state != "done":
            self.result = None
        if self.state != "queued":
            self.due_at = None
        return self


class ListedTask(TaskObject):
    """A background task with truncated texts."""

    prompt: ListedText
    result: ListedText | None


class StudioTask(TaskObject):
    """A background task of any user."""

    error: NullIfEmpty
    user_id: UUID
    worker: NullIfEmpty


class StudioListedTask(StudioTask):
    """A background task of any user, with truncated texts."""

    prompt: ListedText
    result: ListedText | None


class TaskList(ListPage[ListedTask]):
    pass
