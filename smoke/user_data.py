"""The runs of synthetic users, for export and erasure."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from database.user_data import Export, ExportedRow, UserTable
from smoke.models import SmokeMessage, SmokeRun


class ExportedSmokeMessage(ExportedRow):
    """A message to or from a synthetic user, without its calls."""

    run: UUID = Field(validation_alias="run_id")
    position: int
    speaker: Literal["persona", "assistant"]
    text: str
    sent_at: datetime


class ExportedRun(ExportedRow):
    """A synthetic user's conversation."""

    id: UUID
    test: str
    target: str
    state: str
    verdict: str | None
    created_at: datetime
    finished_at: datetime | None


TABLES = (
    UserTable(
        "smoke_messages",
        SmokeMessage,
        erased=30,
        through="run",
        export=Export("smoke_messages", ExportedSmokeMessage),
    ),
    UserTable(
        "smoke_runs", SmokeRun, erased=31, export=Export("smoke_runs", ExportedRun)
    ),
)
