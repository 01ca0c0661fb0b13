"""What judges and people said of a user's turns, for the export of all there is."""

from collections.abc import Iterator
from typing import Any

from judges.models import Feedback, Score
from memory.user_data.registry import Belongings


def _describe_scores(rows: list[Score]) -> Iterator[dict[str, Any]]:
    """Tell scores as an export has them."""
    for row in rows:
        yield {
            "turn_id": row.turn_id,
            "judge": row.judge,
            "criterion": row.criterion,
            "score": row.value,
            "reasoning": row.reasoning,
            "agent": row.agent,
            "experiment": row.experiment or None,
            "origin": row.origin,
            "judged_at": row.judged_at,
        }


def _describe_feedback(rows: list[Feedback]) -> Iterator[dict[str, Any]]:
    """Tell feedback as an export has it."""
    for row in rows:
        yield {
            "turn_id": row.turn_id,
            "score": row.score,
            "thumb": row.thumb,
            "comment": row.comment or None,
            "agent": row.agent,
            "experiment": row.experiment or None,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
        }


SCORES = Belongings(
    "scores", lambda user_id: Score.objects.filter(user_id=user_id), _describe_scores
)
FEEDBACK = Belongings(
    "feedback",
    lambda user_id: Feedback.objects.filter(user_id=user_id),
    _describe_feedback,
)
