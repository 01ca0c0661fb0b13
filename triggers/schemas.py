"""The shapes of triggers and their runs, for operators."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api_base.field_types import NullIfEmpty
from tasks.schemas import TaskState


class TriggerTask(BaseModel):
    """One of a trigger's tasks."""

    id: UUID
    state: TaskState
    error: NullIfEmpty
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TriggerObject(BaseModel):
    """A trigger and its counters, without its secret."""

    name: str
    type: Literal["boot", "cron", "webhook"]
    agent: str
    enabled: bool
    paused: bool
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
    schedule: str | None = Field(None, description="For `cron`.")
    time_zone: str | None = Field(None, description="For `cron`.")
    catch_up: bool | Literal["last"] | None = Field(None, description="For `cron`.")
    path: str | None = Field(None, description="For `webhook`.")
    signature: Literal["github", "header", "slack"] | None = Field(
        None, description="For `webhook`."
    )
    header: str | None = Field(None, description="For `webhook`.")
    max_body_bytes: int | None = Field(None, description="For `webhook`.")


class CountedTrigger(TriggerObject):
    """A trigger with the number of its stored tasks in each state."""

    runs: dict[TaskState, int]


class ListedTrigger(TriggerObject):
    """A trigger with its last runs, without its secret."""

    last_runs: list[TriggerTask]


class DetailedTrigger(ListedTrigger):
    """A trigger with its prompt and its next run times."""

    prompt: str
    next_times: list[datetime]


class TriggerList(BaseModel):
    """The triggers, in the order of the YAML."""

    object: Literal["list"]
    data: list[ListedTrigger]
