"""The roll-up: totals of finished hours, summed from their turns, calls and expenses.

Turns do no work for it. It runs every ten minutes, and totals the hours that have no
totals yet, newest first. Turns that ended late change the sums of their hour, which is
then totalled again. All is repeatable: an hour is replaced in one transaction.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Q, QuerySet

from database.repeated_queries import EARLIEST
from telemetry.models import Expense, HourlyTotal, ModelCall, Origin, RolledHour, Turn
from telemetry.models.choices import retention_start
from telemetry.models.hourly_totals import HOUR, TotalKind, floor_hour, parse_hour
from telemetry.models.turn_totals import AGGREGATES, sum_groups, sum_of
from telemetry.statistics.spend_sources import CACHE_SUMS, IS_UNPRICED, TOKEN_SUMS
from telemetry.statistics.time_buckets import HourBucket

SETTLING = timedelta(hours=1)
"""How long after its end an hour is totalled: most turns have ended then."""
LATE = timedelta(hours=26)
"""How long hours are compared with their turns; no turn takes longer."""
MAX_SECONDS = 300.0
"""Time limit of a run; the next one continues."""
LOCK_SQL = "LOCK TABLE telemetry_rolledhour IN SHARE ROW EXCLUSIVE MODE"
"""Waits for erasures that open an hour again, and for other runs, and they for it."""

logger = logging.getLogger(__name__)

Sums = dict[str, Any]

TURN_SUMS: Sums = {
    **AGGREGATES,
    "number": AGGREGATES["turns"],
    "unpriced_turns": AGGREGATES["unpriced"],
}
CALL_SUMS: Sums = {
    **TOKEN_SUMS,
    "number": Count("id"),
    "unpriced": Count("id", filter=IS_UNPRICED),
    "turns": Count("turn", distinct=True),
    "unpriced_turns": Count("turn", distinct=True, filter=IS_UNPRICED),
    **CACHE_SUMS,
}
EXPENSE_SUMS: Sums = {
    **TOKEN_SUMS,
    "number": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
}


def roll_up(now: datetime) -> int:
    """Total the finished hours that need it; return how many."""
    deadline = time.monotonic() + MAX_SECONDS
    count = 0
    for hour in _due_hours(floor_hour(now - SETTLING)):
        roll_hour(hour)
        count += 1
        if time.monotonic() >= deadline:
            break
    return count


def seal_hours(now: datetime) -> None:
    """Total the hours whose turns may be deleted by age, and keep these totals."""
    before = retention_start(now)
    if before is None:
        return
    for hour in _open_hours(before):
        roll_hour(hour)
    RolledHour.objects.filter(pk__lt=before, is_sealed=False).update(is_sealed=True)


def roll_hour(hour: datetime) -> None:
    """Replace the totals of an hour."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            # SQLite has one writer at a time anyway.
            with connection.cursor() as cursor:
                cursor.execute(LOCK_SQL)
        rolled = RolledHour.objects.filter(pk=hour)
        if rolled.filter(is_sealed=True).exists():
            return
        rolled.delete()
        RolledHour.objects.create(hour=hour)
        HourlyTotal.objects.bulk_create(_totals_of(hour), batch_size=500)


def _due_hours(until: datetime) -> Iterator[datetime]:
    """Yield the hours before a time that have no totals, or totals of fewer turns."""
    yield from _open_hours(until)
    since = until - LATE
    rows, totals = _sums_by_hour(since, until), _totals_by_hour(since)
    for hour in sorted(rows.keys() | totals.keys()):
        if rows.get(hour) != totals.get(hour):
            yield hour


def _open_hours(until: datetime) -> Sequence[datetime]:
    """Return the hours before a time with rows and without totals, newest first."""
    found: set[datetime] = set()
    rolled = set(RolledHour.objects.filter(pk__lt=until).values_list("pk", flat=True))
    for model, at in ((Turn, "started_at"), (Expense, "spent_at")):
        rows = model._default_manager.order_by(at)
        hour = EARLIEST
        while True:
            later = rows.filter(**{f"{at}__gte": hour, f"{at}__lt": until})
            first = later.values_list(at, flat=True).first()
            if first is None:
                break
            # Hours without rows are skipped.
            hour = floor_hour(first)
            if hour not in rolled:
                found.add(hour)
            hour += HOUR
            while hour in rolled:
                hour += HOUR
    return sorted(found, reverse=True)


def _sums_by_hour(since: datetime, until: datetime) -> dict[datetime, Any]:
    """Return the number and the cost of the turns and expenses of each hour."""
    sums: dict[datetime, Any] = {}
    for model, at, cost in (
        (Turn, "started_at", "known_cost_micro_usd"),
        (Expense, "spent_at", "cost_micro_usd"),
    ):
        rows = model._default_manager.filter(
            **{f"{at}__gte": since, f"{at}__lt": until}
        )
        keys = {"hour": HourBucket(at)}
        for hour, *values in sum_groups(
            rows, keys, {"number": Count("id"), "micro_usd": sum_of(cost)}
        ):
            _add(sums, parse_hour(hour), values)
    return sums


def _totals_by_hour(since: datetime) -> dict[datetime, Any]:
    """Return the same as `_sums_by_hour`, from the totals."""
    sums: dict[datetime, Any] = {}
    kinds = (TotalKind.TURN, TotalKind.JUDGE, TotalKind.EMBEDDING)
    rows = HourlyTotal.objects.filter(
        hour__gte=since, hour__is_sealed=False, kind__in=kinds
    )
    names = ("number", "micro_usd")
    for hour, *values in sum_groups(
        rows, {"hour": F("hour_id")}, {name: sum_of(name) for name in names}
    ):
        _add(sums, hour, values)
    return sums


def _add(sums: dict[datetime, Any], hour: datetime, values: Sequence[int]) -> None:
    old = sums.get(hour, (0, 0))
    sums[hour] = (old[0] + values[0], old[1] + values[1])


def _totals_of(hour: datetime) -> Iterator[HourlyTotal]:
    """Yield the totals of an hour's rows."""
    within = {"started_at__gte": hour, "started_at__lt": hour + HOUR}
    turns = Turn.objects.filter(**within).annotate(
        is_shadow=Q(origin=Origin.SHADOW), has_calls=Q(model_calls__gt=0)
    )
    of_turns = {f"turn__{name}": at for name, at in within.items()}
    expenses = Expense.objects.filter(spent_at__gte=hour, spent_at__lt=hour + HOUR)
    agent, models = F("agent"), {"provider": F("provider"), "model": F("model")}
    by_agent = {
        "agent": agent,
        "is_shadow": F("is_shadow"),
        "has_calls": F("has_calls"),
    }
    by_token = {"agent": agent, "token_id": F("token_id")}
    by_call = {"agent": F("turn__agent"), **models}
    parts: tuple[tuple[str, QuerySet[Any], Sums, Sums], ...] = (
        # Turns come first: one that is stored meanwhile is missing here, and noticed.
        (TotalKind.TURN, turns, by_agent, TURN_SUMS),
        (TotalKind.TOKEN, turns.filter(has_calls=True), by_token, TURN_SUMS),
        (TotalKind.CALL, ModelCall.objects.filter(**of_turns), by_call, CALL_SUMS),
        *(
            (
                kind,
                expenses.filter(purpose=kind),
                {"agent": agent, **models},
                EXPENSE_SUMS,
            )
            for kind in (TotalKind.JUDGE, TotalKind.EMBEDDING)
        ),
    )
    for kind, rows, keys, sums in parts:
        names = (*keys, *sums)
        for values in sum_groups(rows, keys, sums):
            columns = dict(zip(names, values, strict=True))
            yield HourlyTotal(hour_id=hour, kind=kind, **columns)
