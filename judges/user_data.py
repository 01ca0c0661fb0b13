"""Scores and feedback on users' turns, for export and erasure."""

from uuid import UUID

from pydantic import Field

from api_base.field_types import NullIfEmpty
from database.user_data import Export, UserTable
from judges.models import Feedback, Score
from judges.schemas import FeedbackFields, ScoreFields


class ExportedScore(ScoreFields):
    """A judge's score of a reply."""

    score: int = Field(validation_alias="value")
    reasoning: str


class ExportedFeedback(FeedbackFields):
    """The user's feedback on a reply."""

    turn_id: UUID
    experiment: NullIfEmpty


TABLES = (
    # After the tasks, which may be about to write scores.
    UserTable("scores", Score, erased=20, export=Export("scores", ExportedScore)),
    UserTable(
        "feedback", Feedback, erased=21, export=Export("feedback", ExportedFeedback)
    ),
)
