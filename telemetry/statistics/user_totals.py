"""What users' turns come to, for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from core.ids import UserId
from telemetry.models import Outcome, Turn

LATELY = 500
"""Failed turns that are looked at for whom nothing else tells of."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a user's turns used."""

    turns: int = 0
    unpriced_turns: int = 0
    """Those whose cost is not known."""
    micro_usd: int = 0
    """As far as it is known."""
    first_at: datetime | None = None
    last_at: datetime | None = None


NOTHING = Used()

SUMS = {
    "turns": Count("id"),
    "unknown": Count("id", filter=Q(cost_micro_usd=None)),
    "micro_usd": Sum("known_micro_usd"),
    "first_at": Min("started_at"),
    "last_at": Max("started_at"),
}


def since(users: Sequence[UserId], at: datetime | None) -> dict[UserId, Used]:
    """Return what turns that began then or later used, by user; None is ever.

    One query, from an index alone. Users without turns are left out.
    """
    turns = Turn.objects.filter(user_id__in=users)
    if at is not None:
        turns = turns.filter(started_at__gte=at)
    rows = turns.values("user_id").annotate(**SUMS).order_by()
    found = rows.values_list("user_id", *SUMS)
    return {UserId(user_id): _used(*sums) for user_id, *sums in found}


def of(user_id: UserId) -> Used:
    """Return what all recorded turns of a user used."""
    return since([user_id], None).get(user_id, NOTHING)


def _used(
    turns: int,
    unknown: int,
    micro_usd: int | None,
    first_at: datetime,
    last_at: datetime,
) -> Used:
    # PostgreSQL's sums of big integers are decimals.
    return Used(turns, unknown, int(micro_usd or 0), first_at, last_at)


def failed_lately() -> QuerySet[Turn]:
    """Return the newest failed turns."""
    failed = Turn.objects.filter(outcome=Outcome.ERROR)
    newest = failed.order_by("-started_at", "-id").values("pk")[:LATELY]
    return Turn.objects.filter(pk__in=newest)
