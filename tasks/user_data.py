"""Users' tasks and calls, for export and erasure."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from django.db.models import Q
from pydantic import BeforeValidator, model_validator

from core.errors import public_text
from database.user_data import Export, ExportedRow, UserTable
from tasks.models import EXTRACTION, CallReceipt, Task
from tasks.queue import task_kinds


class ExportedTask(ExportedRow):
    """A task that was run for the user.

    The results of unlisted tasks, such as judging, are left out, because they contain
    models and costs; the scores are exported elsewhere.
    """

    id: UUID
    kind: str
    state: Literal["queued", "running", "done", "errored", "cancelled"]
    agent: str
    prompt: str
    result: str | None
    error: Annotated[str | None, BeforeValidator(public_text)]
    origin: str
    created_at: datetime
    finished_at: datetime | None

    @model_validator(mode="after")
    def _hide_unlisted_result(self) -> Self:
        if self.kind not in task_kinds.listed_names():
            self.result = self.error = None
        return self


TABLES = (
    # First, so that an erasure waits for a judge that is about to store scores.
    UserTable(
        "tasks",
        Task,
        erased=10,
        where=~Q(kind=EXTRACTION),
        export=Export("tasks", ExportedTask),
    ),
    # For an hour: what they show is in other tables.
    UserTable("call_receipts", CallReceipt, erased=11),
)
