"""Costs of the recorded turns and their judges, summed by the database."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal, get_args

from django.db import connection
from django.db.models import CharField, Count, F, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat

from telemetry.models import Expense, ModelCall, Turn

Dimension = Literal["agent", "day", "model", "provider", "token", "user"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

TURNS_KEYS: dict[Dimension, Any] = {
    "agent": F("agent"),
    "token": F("token_id"),
    "user": F("user_id"),
}
"""A turn counts for the requested agent, including the agents that it called."""

CALLS_KEYS: dict[Dimension, tuple[str, ...]] = {
    "model": ("provider", "model"),
    "provider": ("provider",),
}

TURNS_SUMS: dict[str, Any] = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("known_cost_micro_usd"),
}

CALLS_SUMS: dict[str, Any] = {
    "calls": Count("id"),
    # A failed call has no usage; a call with usage and no cost has no known price.
    "unpriced": Count("id", filter=Q(cost_micro_usd=None, input_tokens__isnull=False)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}

JUDGES_KEYS: dict[Dimension, Any] = {
    "agent": F("agent"),
    "model": Concat(F("provider"), Value("/"), F("model")),
    "provider": F("provider"),
    # The operator pays, whichever user the reply was for.
    "token": Value(None, output_field=CharField()),
    "user": Value(None, output_field=CharField()),
}

JUDGES_SUMS = {
    "judgements": Count("id"),
    "unpriced_judgements": Count("id", filter=Q(cost_micro_usd=None)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}


@dataclass(frozen=True, slots=True)
class CostTotal:
    """The cost of one key of a dimension, by its turns or by its judges, or of all."""

    key: str | None
    """None for turns without a key, such as a token, and for the total."""
    turns: int
    """Turns with model calls; for a model or a provider, its calls."""
    unpriced: int
    """Those whose cost is not fully known."""
    input_tokens: int
    output_tokens: int
    micro_usd: int
    """The known part."""
    judgements: int = 0
    """Number of judged replies, for judges and for the total."""
    unpriced_judgements: int = 0
    """Those whose cost is unknown."""


def totals_by(
    dimension: Dimension, since: datetime, *, limit: int | None = None
) -> list[CostTotal]:
    """Return the costs since then, of turns and, separately, of their judges.

    Days are in order, other keys by cost, highest first. `limit` bounds the number of
    users or tokens. Takes a few index-only queries.
    """
    if dimension == "day":
        totals = [*_turns_by_day(since), *_judges_by_day(since)]
        return sorted(totals, key=lambda total: (total.key or "", total.judgements))
    totals = [
        *_turn_or_call_totals(dimension, since, limit),
        *_judge_totals(dimension, since),
    ]
    return sorted(totals, key=lambda total: (-total.micro_usd, total.key or ""))


def _turn_or_call_totals(
    dimension: Dimension, since: datetime, limit: int | None
) -> list[CostTotal]:
    if dimension in CALLS_KEYS:
        names = CALLS_KEYS[dimension]
        calls = ModelCall.objects.filter(started_at__gte=since)
        groups = calls.values(*names).annotate(**CALLS_SUMS).order_by()
        rows = groups.values_list(*names, *CALLS_SUMS)
        end = len(names)
        return [_turn_total("/".join(row[:end]), *row[end:]) for row in rows]
    turns: Any = _turns(since).values(key=TURNS_KEYS[dimension]).annotate(**TURNS_SUMS)
    groups = turns.order_by("-cost_sum", "key")[:limit] if limit else turns.order_by()
    return [_turn_total(*row) for row in groups.values_list("key", *TURNS_SUMS)]


def _judge_totals(dimension: Dimension, since: datetime) -> list[CostTotal]:
    expenses = _judge_expenses(since).values(key=JUDGES_KEYS[dimension])
    groups = expenses.annotate(**JUDGES_SUMS).order_by()
    totals = [_judge_total(*row) for row in groups.values_list("key", *JUDGES_SUMS)]
    # Without rows, a sum is still one row.
    return [total for total in totals if total.judgements]


DAY = timedelta(days=1)
DAYS_PER_QUERY = 200
"""SQLite accepts at most 500 SELECTs in one statement."""
DAY_TURNS_SQL = """
    SELECT %s, count(*), count(*) - count(cost_micro_usd), sum(input_tokens),
        sum(output_tokens), sum(known_cost_micro_usd)
    FROM telemetry_turn
    WHERE started_at >= %s AND started_at < %s AND model_calls > 0
"""
DAY_JUDGES_SQL = """
    SELECT %s, count(*), count(*) - count(cost_micro_usd), sum(input_tokens),
        sum(output_tokens), sum(cost_micro_usd)
    FROM telemetry_expense
    WHERE spent_at >= %s AND spent_at < %s
"""
"""Without GROUP BY, because databases would sort: each day is a range of the index."""


def _turns_by_day(since: datetime) -> list[CostTotal]:
    turns = Turn.objects.filter(started_at__gte=since)
    instants = turns.values_list("started_at", flat=True).order_by("started_at")
    rows = _rows_by_day(DAY_TURNS_SQL, instants, since)
    return [_turn_total(*row) for row in rows]


def _judges_by_day(since: datetime) -> list[CostTotal]:
    expenses = _judge_expenses(since)
    instants = expenses.values_list("spent_at", flat=True).order_by("spent_at")
    rows = _rows_by_day(DAY_JUDGES_SQL, instants, since)
    return [_judge_total(*row) for row in rows]


def _rows_by_day(
    statement: str, instants: QuerySet[Any, datetime], since: datetime
) -> list[tuple[Any, ...]]:
    """Return a row for each day that has any; `instants` are in order."""
    # In two queries: for both together SQLite would scan all rows in between.
    earliest, latest = instants.first(), instants.last()
    if earliest is None or latest is None:
        return []
    first = datetime.combine(earliest.astimezone(UTC), time.min, UTC)
    days = [first + number * DAY for number in range((latest - first).days + 1)]
    batches = (
        days[at : at + DAYS_PER_QUERY] for at in range(0, len(days), DAYS_PER_QUERY)
    )
    rows = (row for batch in batches for row in _query_days(statement, batch, since))
    return [row for row in rows if row[1]]


def _query_days(
    statement: str, days: Sequence[datetime], since: datetime
) -> list[tuple[Any, ...]]:
    adapt = connection.ops.adapt_datetimefield_value
    values = [
        value
        for day in days
        for value in (f"{day:%Y-%m-%d}", adapt(max(day, since)), adapt(day + DAY))
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([statement] * len(days)), values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def grand_total(since: datetime) -> CostTotal:
    """Return the cost of turns and judges together since then."""
    return sum_totals(totals_by("agent", since))


def sum_totals(totals: Sequence[CostTotal]) -> CostTotal:
    """Return the sum of the costs of all keys of a dimension."""
    sums = {
        field.name: sum(getattr(total, field.name) for total in totals)
        for field in fields(CostTotal)
        if field.name != "key"
    }
    return CostTotal(None, **sums)


def oldest_turn_at() -> datetime | None:
    """Return when the oldest recorded turn began."""
    oldest: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return oldest


def _turns(since: datetime) -> QuerySet[Turn]:
    return Turn.objects.filter(started_at__gte=since, model_calls__gt=0)


def _judge_expenses(since: datetime) -> QuerySet[Expense]:
    return Expense.objects.filter(spent_at__gte=since)


def _judge_total(
    key: Any, judgements: int, unpriced_judgements: int, *sums: Any, **named: Any
) -> CostTotal:
    return replace(
        _turn_total(key, 0, 0, *sums, **named),
        judgements=judgements,
        unpriced_judgements=unpriced_judgements,
    )


def _turn_total(
    key: Any,
    turns: int,
    unpriced: int,
    input_sum: int | None,
    output_sum: int | None,
    cost_sum: int | None,
) -> CostTotal:
    # An empty sum is null; PostgreSQL's sums of bigint are decimals.
    sums = (int(value or 0) for value in (input_sum, output_sum, cost_sum))
    return CostTotal(None if key is None else str(key), turns, unpriced, *sums)
