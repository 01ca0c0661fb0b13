"""Judges' scores of one user's replies, and that user's feedback."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Avg, Count, Q

from core.ids import UserId
from judges.models import Feedback, Score
from judges.ratings import scores

Cursor = tuple[datetime, int]
"""Position of a page of scores: creation time and id of the last one."""


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


def page_scores(
    user_id: UserId, *, after: Cursor | None = None, limit: int = 50
) -> tuple[list[Score], bool]:
    """Return a user's scores, newest first, and whether there are more."""
    rows = scores.scores_of_user(user_id)
    if after is not None:
        at, last_id = after
        earlier = Q(judged_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, judged_at__lte=at)
    found = list(rows.order_by("-judged_at", "-id")[: limit + 1])
    return found[:limit], len(found) > limit


def list_feedback(user_id: UserId, limit: int) -> list[Feedback]:
    """Return a user's feedback, newest first."""
    rows = Feedback.objects.filter(user_id=user_id)
    return list(rows.order_by("-updated_at", "-id")[:limit])


def feedback_on_turns(user_id: UserId, turn_ids: Collection[UUID]) -> list[Feedback]:
    """Return a user's feedback on these turns."""
    return list(Feedback.objects.filter(user_id=user_id, turn_id__in=turn_ids))
