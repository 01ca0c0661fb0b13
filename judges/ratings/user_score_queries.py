"""Judges' scores of one user's replies, and that user's feedback."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Avg, Count

from core.ids import UserId
from judges.models import Feedback, Score
from judges.ratings import scores
from judges.ratings.scores import Cursor


@dataclass(frozen=True, slots=True)
class CriterionMean:
    """Mean score of one judge and criterion."""

    judge: str
    criterion: str
    mean: float
    count: int


def mean_scores(user_id: UserId) -> list[CriterionMean]:
    """Return the mean of each judge and criterion, by their names; in one query."""
    rows = scores.scores_of_user(user_id).values("judge", "criterion")
    counted = rows.annotate(mean=Avg("value"), count=Count("id"))
    return [CriterionMean(**row) for row in counted.order_by("judge", "criterion")]


def page_user_scores(
    user_id: UserId, *, after: Cursor | None = None, limit: int = 50
) -> tuple[list[Score], bool]:
    """Return a page of a user's scores, newest first, and whether there are more."""
    return scores.page_scores(scores.scores_of_user(user_id), after=after, limit=limit)


def list_feedback(user_id: UserId, limit: int) -> list[Feedback]:
    """Return a user's feedback, newest first."""
    rows = Feedback.objects.filter(user_id=user_id)
    return list(rows.order_by("-updated_at", "-id")[:limit])


def feedback_on_turns(user_id: UserId, turn_ids: Collection[UUID]) -> list[Feedback]:
    """Return a user's feedback on these turns."""
    return list(Feedback.objects.filter(user_id=user_id, turn_id__in=turn_ids))
