"""The queue on the live page: running, waiting and recently ended tasks.

It reads at most a thousand tasks, however long the queue is.
"""

import uuid
from collections import Counter
from datetime import datetime
from typing import Annotated, Literal, Self

from django.db.models import QuerySet
from django.db.models.functions import Left
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from api_base.field_types import NullIfEmpty
from core.text import redaction
from tasks.models import OPEN, Task
from tasks.queue import task_kinds
from tasks.schemas import TaskState
from telemetry.schemas import RowObject

MAX_COUNTED = 1000
"""Maximum open tasks that are read and counted."""
MAX_SHOWN = 20
"""Maximum tasks shown per state."""
MAX_TEXT_LENGTH = 200
"""Characters of a text."""
MAX_READ_LENGTH = 4 * MAX_TEXT_LENGTH
"""Characters read of a text, so that truncation leaves no half of a secret unmasked."""


def shorten(text: str | None) -> str:
    """Return the first characters of a text in one line, without secrets of ours."""
    return " ".join(redaction.redact_own(text or "").split())[:MAX_TEXT_LENGTH]


ShortText = Annotated[str, BeforeValidator(shorten)]
ShortError = Annotated[NullIfEmpty, BeforeValidator(shorten)]


class QueuedTask(RowObject):
    """A task in the queue."""

    id: uuid.UUID
    object: Literal["task"] = "task"
    kind: str
    state: TaskState
    agent: str
    user_id: uuid.UUID
    prompt: ShortText = Field(validation_alias="prompt_start")
    error: ShortError = Field(validation_alias="error_start")
    origin: str
    turn_id: uuid.UUID | None
    attempts: int
    cancel_requested: bool = Field(validation_alias="is_cancelled")
    due_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    since: datetime | None = Field(None, description="When it entered its state.")

    @model_validator(mode="after")
    def _set_times(self) -> Self:
        if self.state == "queued":
            self.since = self.created_at
        else:
            self.due_at, self.since = None, self.finished_at or self.started_at
        return self


class TaskQueueState(BaseModel):
    """The state of the task queue."""

    counts: dict[str, int]
    has_more: bool = Field(description="Whether `counts` are lower limits.")
    open: list[QueuedTask]
    ended: list[QueuedTask]


def read_queue() -> TaskQueueState:
    states = _open_states()
    counts = Counter(states.values())
    shown_ids = [
        pk
        for shown in (Task.State.RUNNING, Task.State.QUEUED)
        for pk in [pk for pk, state in states.items() if state == shown][:MAX_SHOWN]
    ]
    tasks = {task.id: task for task in _read(Task.objects.filter(pk__in=shown_ids))}
    ended = Task.objects.filter(pk__in=_ended_ids()).order_by("-finished_at")
    return TaskQueueState(
        counts={state.value: counts[state] for state in OPEN},
        has_more=len(states) == MAX_COUNTED,
        open=[tasks[pk] for pk in shown_ids if pk in tasks],
        ended=_read(ended),
    )


def _ended_ids() -> list[uuid.UUID]:
    """Return the ids of the tasks that ended last, among a thousand."""
    ended = Task.objects.filter(finished_at__isnull=False).order_by("-finished_at")
    rows = ended.values_list("pk", "kind")[:MAX_COUNTED]
    return [pk for pk, kind in rows if not task_kinds.is_ordered(kind)][:MAX_SHOWN]


def _open_states() -> dict[uuid.UUID, str]:
    """Return the states of the first open tasks by id, in the order of claims."""
    order = ("-priority", "round", "created_at")
    columns = ("priority", "round", "created_at", "pk", "state")
    found = [
        row
        for kind in task_kinds.names()
        if not task_kinds.is_ordered(kind)
        for row in Task.objects.open()
        .filter(kind=kind)
        .order_by(*order)
        .values_list(*columns)[:MAX_COUNTED]
    ]
    found.sort(key=lambda row: (-row[0], *row[1:3]))
    return {pk: state for *_, pk, state in found[:MAX_COUNTED]}


def _read(tasks: QuerySet[Task]) -> list[QueuedTask]:
    rows = tasks.defer("prompt", "error", "payload", "result").annotate(
        prompt_start=Left("prompt", MAX_READ_LENGTH),
        error_start=Left("error", MAX_READ_LENGTH),
    )
    return [QueuedTask.model_validate(row) for row in rows]
