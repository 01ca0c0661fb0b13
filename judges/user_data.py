"""Scores and feedback on users' turns, for export and erasure."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from api_base.field_types import NullIfEmpty
from database.user_data import Export, ExportedRow, UserTable
from judges.models import Feedback, Score
from telemetry.types import Origin


class ExportedScore(ExportedRow):
    """A judge's score of a reply."""

    turn_id: UUID
    judge: str
    criterion: str
    score: int = Field(validation_alias="value")
    reasoning: str
    agent: str
    experiment: NullIfEmpty
    origin: Origin
    judged_at: datetime


class ExportedFeedback(ExportedRow):
    """The user's feedback on a reply."""

    turn_id: UUID
    score: int | None
    thumb: Literal["", "up", "down"] | None
    comment: NullIfEmpty
    agent: str
    experiment: NullIfEmpty
    created_at: datetime
    updated_at: datetime


TABLES = (
    # After the tasks, which may be about to write scores.
    UserTable("scores", Score, erased=20, export=Export("scores", ExportedScore)),
    UserTable(
        "feedback", Feedback, erased=21, export=Export("feedback", ExportedFeedback)
    ),
)
