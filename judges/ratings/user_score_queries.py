"""What judges make of the replies one user got, and what that user says of them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Avg, Count, Q

from core.ids import UserId
from judges.models import Feedback, Score
from judges.ratings import scores

Place = tuple[datetime, int]
"""Where a page of scores ends: when it was given, and its id."""


@dataclass(frozen=True, slots=True)
class Mean:
    """What one judge gives by one criterion, on average."""

    judge: str
    criterion: str
    mean: float
    count: int


def means(user_id: UserId) -> list[Mean]:
    """Return the mean of each judge and criterion, by their names; in one query."""
    rows = scores.of_user(user_id).values("judge", "criterion")
    counted = rows.annotate(mean=Avg("value"), count=Count("id"))
    return [Mean(**row) for row in counted.order_by("judge", "criterion")]


def page(
    user_id: UserId, *, after: Place | None = None, limit: int = 50
) -> tuple[list[Score], bool]:
    """Return a user's scores, the newest first, and whether there are more."""
    rows = scores.of_user(user_id)
    if after is not None:
        at, last_id = after
        earlier = Q(judged_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, judged_at__lte=at)
    found = list(rows.order_by("-judged_at", "-id")[: limit + 1])
    return found[:limit], len(found) > limit


def feedback(user_id: UserId, limit: int) -> list[Feedback]:
    """Return what a user said of replies, the newest first."""
    rows = Feedback.objects.filter(user_id=user_id)
    return list(rows.order_by("-updated_at", "-id")[:limit])


def feedback_on(user_id: UserId, turn_ids: Collection[UUID]) -> list[Feedback]:
    """Return what a user said of these turns."""
    return list(Feedback.objects.filter(user_id=user_id, turn_id__in=turn_ids))
