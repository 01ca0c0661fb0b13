"""Totals of users' turns, for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from core.ids import UserId
from telemetry.models import Outcome, Turn

MAX_FAILED_TURNS = 500
"""Maximum failed turns that are searched for users without other rows."""


@dataclass(frozen=True, slots=True)
class UserTotals:
    """The usage of a user's turns."""

    turns: int = 0
    unpriced: int = 0
    """Those whose cost is unknown."""
    micro_usd: int = 0
    """The known part."""
    first_at: datetime | None = None
    last_at: datetime | None = None


NO_TURNS = UserTotals()

AGGREGATES = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "micro_usd": Sum("known_cost_micro_usd"),
    "first_at": Min("started_at"),
    "last_at": Max("started_at"),
}


def totals_since(
    users: Sequence[UserId], at: datetime | None
) -> dict[UserId, UserTotals]:
    """Return the usage of turns since then, by user; None counts all turns.

    One index-only query. Users without turns are left out.
    """
    turns = Turn.objects.filter(user_id__in=users)
    if at is not None:
        turns = turns.filter(started_at__gte=at)
    rows = turns.values("user_id").annotate(**AGGREGATES).order_by()
    found = rows.values_list("user_id", *AGGREGATES)
    return {UserId(user_id): _user_totals(*sums) for user_id, *sums in found}


def user_totals(user_id: UserId) -> UserTotals:
    """Return the usage of all recorded turns of a user."""
    return totals_since([user_id], None).get(user_id, NO_TURNS)


def _user_totals(
    turns: int,
    unpriced: int,
    micro_usd: int | None,
    first_at: datetime,
    last_at: datetime,
) -> UserTotals:
    # PostgreSQL's sums of bigint are decimals.
    return UserTotals(turns, unpriced, int(micro_usd or 0), first_at, last_at)


def recent_failed_turns() -> QuerySet[Turn]:
    """Return the newest failed turns."""
    failed = Turn.objects.filter(outcome=Outcome.ERROR)
    newest = failed.order_by("-started_at", "-id").values("pk")[:MAX_FAILED_TURNS]
    return Turn.objects.filter(pk__in=newest)
