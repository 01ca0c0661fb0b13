"""Queries of the server's users for operators.

Includes users with answered messages, with facts, or with recent failed turns. The list
is derived from threads, facts and turns, not stored.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from core.ids import UserId
from memory.models import Fact, Owner, Thread
from telemetry.statistics import user_totals

UserCursor = tuple[datetime, UUID]
"""The cursor of a page: the user's last activity and id."""


@dataclass(frozen=True, slots=True)
class UserActivity:
    """A user of the server."""

    user_id: UserId
    active_at: datetime
    """The last message; for users without messages, the last fact or failed turn."""
    threads: int = 0
    messages: int = 0

    @property
    def cursor(self) -> UserCursor:
        return self.active_at, self.user_id


@dataclass(frozen=True, slots=True)
class UserFilter:
    """A filter of users that match any of these."""

    users: Collection[UserId]
    ids: tuple[UUID, UUID] | None = None
    """A range of ids, both ends included."""

    @property
    def condition(self) -> Q:
        """Return the condition for a row's user."""
        condition = Q(user_id__in=self.users)
        return condition | Q(user_id__range=self.ids) if self.ids else condition


ALL_USERS = Q()


def page_users(
    *,
    user_filter: UserFilter | None = None,
    after: UserCursor | None = None,
    limit: int = 50,
) -> tuple[list[UserActivity], bool]:
    """Return users, most recently active first, and whether there are more.

    Runs three queries over tables with few rows per user: threads, owners, failed
    turns.
    """
    condition = ALL_USERS if user_filter is None else user_filter.condition
    found: list[UserActivity] = []
    for source in (_with_threads, _with_facts_only, _with_failures_only):
        found += source(condition, after, limit + 1)
    first = nlargest(limit + 1, found, key=lambda user: user.cursor)
    return first[:limit], len(first) > limit


def _with_threads(
    condition: Q, after: UserCursor | None, limit: int
) -> list[UserActivity]:
    # With the bare column, SQLite would read the threads in index order, by random
    # access.
    rows = Thread.objects.filter(condition).values(user=Coalesce("user_id", "user_id"))
    totals = rows.annotate(
        at=Max("updated_at"), count=Count("id"), message_count=Sum("length")
    )
    return _activities(totals, after, limit, "count", "message_count")


def _with_facts_only(
    condition: Q, after: UserCursor | None, limit: int
) -> list[UserActivity]:
    rows = Owner.objects.filter(condition).filter(~_has_rows(Thread))
    named = rows.values(user=F("user_id"), at=F("created_at"))
    return _activities(named, after, limit)


def _with_failures_only(
    condition: Q, after: UserCursor | None, limit: int
) -> list[UserActivity]:
    rows = user_totals.recent_failed_turns().filter(condition)
    without_data = rows.filter(~_has_rows(Thread), ~_has_rows(Owner))
    last = without_data.values(user=F("user_id")).annotate(at=Max("started_at"))
    return _activities(last, after, limit)


def _has_rows(model: type[Any]) -> Exists:
    return Exists(model.objects.filter(user_id=OuterRef("user_id")))


def _activities(
    rows: QuerySet[Any, Any], after: UserCursor | None, limit: int, *counts: str
) -> list[UserActivity]:
    if after is not None:
        at, last_id = after
        rows = rows.filter(Q(at__lt=at) | Q(at=at, user__lt=last_id))
    found = rows.order_by("-at", "-user").values_list("user", "at", *counts)
    return [UserActivity(UserId(user_id), *rest) for user_id, *rest in found[:limit]]


@dataclass(frozen=True, slots=True)
class UserDetails:
    """The counts of one user's data."""

    first_seen_at: datetime | None
    last_seen_at: datetime | None
    time_zone: str
    threads: int
    messages: int
    facts: dict[str, int]
    """The number of facts by status."""


def get_details(user_id: UserId) -> UserDetails:
    """Return the counts of a user's data in three queries; all may be zero."""
    threads = Thread.objects.filter(user_id=user_id).aggregate(
        first=Min("created_at"),
        last=Max("updated_at"),
        count=Count("id"),
        message_count=Sum("length"),
    )
    owner = Owner.objects.filter(user_id=user_id).first()
    first_fact_at = None if owner is None else owner.created_at
    return UserDetails(
        first_seen_at=_earliest((threads["first"], first_fact_at)),
        last_seen_at=threads["last"] or first_fact_at,
        time_zone="" if owner is None else owner.time_zone,
        threads=threads["count"],
        messages=threads["message_count"] or 0,
        facts=count_facts_by_status([user_id])[user_id],
    )


def _earliest(instants: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)


def count_facts_by_status(users: Sequence[UserId]) -> dict[UserId, dict[str, int]]:
    """Return the number of facts per user and status, from an index only."""
    counts: dict[UserId, dict[str, int]] = {user: {} for user in users}
    rows = Fact.objects.filter(user_id__in=users).values_list("user_id", "status")
    for user_id, status, count in rows.annotate(count=Count("*")).order_by():
        counts[UserId(user_id)][status] = count
    return counts


def count_facts_by_category(user_id: UserId) -> dict[str, int]:
    """Return the number of a user's active facts per category."""
    rows = Fact.objects.filter(user_id=user_id, status="active").values_list("category")
    return dict(rows.annotate(count=Count("*")).order_by("category"))
