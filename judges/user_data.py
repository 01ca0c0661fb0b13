"""Scores and feedback on users' turns, for export and erasure."""

from collections.abc import Iterator
from typing import Any

from database.user_data import Export, UserTable
from judges.models import Feedback, Score


def _serialize_scores(rows: list[Score]) -> Iterator[dict[str, Any]]:
    """Return scores in the format of an export."""
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


def _serialize_feedback(rows: list[Feedback]) -> Iterator[dict[str, Any]]:
    """Return feedback in the format of an export."""
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


TABLES = (
    # After the tasks, which may be about to write scores.
    UserTable("scores", Score, erased=20, export=Export("scores", _serialize_scores)),
    UserTable(
        "feedback", Feedback, erased=21, export=Export("feedback", _serialize_feedback)
    ),
)
