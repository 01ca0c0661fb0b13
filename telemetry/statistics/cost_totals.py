"""Costs of turns, of their judges and of embeddings, summed by the database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal, get_args
from uuid import UUID

from django.db import connection
from django.db.models import (
    CharField,
    Count,
    F,
    Min,
    Q,
    QuerySet,
    Sum,
    UUIDField,
    Value,
)
from django.db.models.functions import Concat

from config.sections import Config
from providers.pricing import call_costs
from telemetry.models import Expense, ExpensePurpose, ModelCall, Turn
from telemetry.statistics.time_buckets import DayBucket, UnindexedColumn

Dimension = Literal["agent", "day", "model", "provider", "token", "user"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

TURNS_KEYS: dict[Dimension, Any] = {
    # SQLite would take another index for the groups, and read the rows.
    "agent": UnindexedColumn("agent"),
    "day": DayBucket("started_at"),
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

# A failed call has no usage; a call with usage and no cost has no known price.
IS_UNPRICED = Q(cost_micro_usd=None, input_tokens__isnull=False)
CALLS_SUMS: dict[str, Any] = {
    "calls": Count("id"),
    "unpriced": Count("id", filter=IS_UNPRICED),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
    "cache_read_sum": Sum("cache_read_tokens"),
    "cache_write_sum": Sum("cache_write_tokens"),
}

TURNS_OF_CALLS_KEYS: dict[Dimension, Any] = {
    "agent": F("turn__agent"),
    "day": DayBucket("started_at"),
    "token": F("turn__token_id"),
    "user": F("turn__user_id"),
}
TURNS_OF_CALLS_SUMS: dict[str, Any] = {
    "calls": Count("turn", distinct=True),
    "unpriced": Count("turn", distinct=True, filter=IS_UNPRICED),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}
"""The turns with calls of a model, and what these calls cost."""

EXPENSES_KEYS: dict[Dimension, Any] = {
    "agent": F("agent"),
    "day": DayBucket("spent_at"),
    "model": Concat(F("provider"), Value("/"), F("model")),
    "provider": F("provider"),
    # Expenses have no user.
    "token": Value(None, output_field=CharField()),
    "user": Value(None, output_field=CharField()),
}

EXPENSES_SUMS = {
    "count": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}


Kind = Literal["embeddings", "judges", "turns"]


@dataclass(frozen=True, slots=True)
class CostTotal:
    """The cost of one key of a dimension: of turns, judges or embeddings; or of all."""

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
    embeddings: int = 0
    """Number of requests that embedded texts with an API, and for the total."""
    unpriced_embeddings: int = 0
    cache_read_tokens: int = 0
    """The part of the input that was read from providers' caches; only by model."""
    cache_write_tokens: int = 0
    saved_micro_usd: int = 0
    """What the cache saved, after `with_savings`."""

    @property
    def unpriced_expenses(self) -> int:
        return self.unpriced_judgements + self.unpriced_embeddings

    @property
    def kind(self) -> Kind:
        if self.judgements:
            return "judges"
        return "embeddings" if self.embeddings else "turns"


@dataclass(frozen=True, slots=True)
class SpendFilter:
    """The turns, calls and expenses whose costs are summed; by default all."""

    until: datetime | None = None
    agent: str = ""
    model: str = ""
    """The provider and its model: `openai/gpt-5-mini`."""
    user_id: UUID | None = None
    token_ids: Sequence[UUID] | None = None

    def turns(self, since: datetime) -> QuerySet[Turn]:
        """Return the turns with model calls since then."""
        # SQLite would take the index of an agent or a token, and read the rows.
        turns = Turn.objects.filter(started_at__gte=since, model_calls__gt=0).alias(
            of_agent=UnindexedColumn("agent"),
            of_token=UnindexedColumn("token_id", output_field=UUIDField()),
        )
        return turns.filter(
            **self._conditions("", "started_at", "of_agent", "of_token")
        )

    def calls(self, since: datetime) -> QuerySet[ModelCall]:
        """Return the model calls of turns since then."""
        calls = ModelCall.objects.filter(started_at__gte=since)
        names = ("turn__", "started_at", "turn__agent", "turn__token_id")
        return calls.filter(**self._conditions(*names), **self._of_model())

    def expenses(self, since: datetime) -> QuerySet[Expense]:
        """Return the expenses since then, which are of no user and of no token."""
        expenses = Expense.objects.filter(spent_at__gte=since)
        if self.user_id is not None or self.token_ids is not None:
            return expenses.none()
        names = ("", "spent_at", "agent", "")
        return expenses.filter(**self._conditions(*names), **self._of_model())

    def _of_model(self) -> dict[str, str]:
        provider, _, model = self.model.partition("/")
        return {"provider": provider, "model": model} if self.model else {}

    def _conditions(self, path: str, at: str, agent: str, token: str) -> dict[str, Any]:
        values = {
            f"{at}__lte": self.until,
            agent: self.agent or None,
            f"{path}user_id": self.user_id,
            f"{token}__in": self.token_ids,
        }
        return {name: value for name, value in values.items() if value is not None}


ALL = SpendFilter()


def totals_by(
    dimension: Dimension,
    since: datetime,
    chosen: SpendFilter = ALL,
    *,
    limit: int | None = None,
) -> list[CostTotal]:
    """Return the costs since then, of turns, of judges and of embeddings.

    Days are in order, other keys by cost, highest first. `limit` bounds the number of
    users or tokens. Takes a few index-only queries.
    """
    if dimension == "day" and chosen == ALL:
        totals = [*_turns_by_day(since), *_expenses_by_day(since)]
    else:
        totals = [
            *_turn_or_call_totals(dimension, since, chosen, limit),
            *_expense_totals(dimension, since, chosen),
        ]
    if dimension == "day":
        return sorted(
            totals, key=lambda total: (total.key or "", total.kind != "turns")
        )
    return sorted(totals, key=lambda total: (-total.micro_usd, total.key or ""))


def _turn_or_call_totals(
    dimension: Dimension, since: datetime, chosen: SpendFilter, limit: int | None
) -> list[CostTotal]:
    if dimension in CALLS_KEYS:
        names = CALLS_KEYS[dimension]
        groups = chosen.calls(since).values(*names).annotate(**CALLS_SUMS).order_by()
        rows = groups.values_list(*names, *CALLS_SUMS)
        end = len(names)
        return [_turn_total("/".join(row[:end]), *row[end:]) for row in rows]
    sums = TURNS_OF_CALLS_SUMS if chosen.model else TURNS_SUMS
    turns: Any
    if chosen.model:
        turns = chosen.calls(since).values(key=TURNS_OF_CALLS_KEYS[dimension])
    else:
        turns = chosen.turns(since).values(key=TURNS_KEYS[dimension])
    turns = turns.annotate(**sums)
    groups = turns.order_by("-cost_sum", "key")[:limit] if limit else turns.order_by()
    return [_turn_total(*row) for row in groups.values_list("key", *sums)]


def _expense_totals(
    dimension: Dimension, since: datetime, chosen: SpendFilter
) -> list[CostTotal]:
    expenses = chosen.expenses(since).values("purpose", key=EXPENSES_KEYS[dimension])
    groups = expenses.annotate(**EXPENSES_SUMS).order_by()
    rows = groups.values_list("purpose", "key", *EXPENSES_SUMS)
    return [_expense_total(*row) for row in rows]


DAY = timedelta(days=1)
DAYS_PER_QUERY = 200
"""SQLite accepts at most 500 SELECTs in one statement."""
DAY_TURNS_SQL = """
    SELECT %s, count(*), count(*) - count(cost_micro_usd), sum(input_tokens),
        sum(output_tokens), sum(known_cost_micro_usd)
    FROM telemetry_turn
    WHERE started_at >= %s AND started_at < %s AND model_calls > 0
"""
DAY_EXPENSES_SQL = """
    SELECT '{purpose}', %s, count(*), count(*) - count(cost_micro_usd),
        sum(input_tokens), sum(output_tokens), sum(cost_micro_usd)
    FROM telemetry_expense
    WHERE spent_at >= %s AND spent_at < %s AND purpose = '{purpose}'
"""
"""Without GROUP BY, because databases would sort: each day is a range of the index."""


def _turns_by_day(since: datetime) -> list[CostTotal]:
    turns = Turn.objects.filter(started_at__gte=since)
    instants = turns.values_list("started_at", flat=True).order_by("started_at")
    rows = _rows_by_day([DAY_TURNS_SQL], instants, since)
    return [total for total in (_turn_total(*row) for row in rows) if total.turns]


def _expenses_by_day(since: datetime) -> list[CostTotal]:
    expenses = ALL.expenses(since)
    instants = expenses.values_list("spent_at", flat=True).order_by("spent_at")
    statements = [
        DAY_EXPENSES_SQL.format(purpose=purpose) for purpose in ExpensePurpose.values
    ]
    rows = _rows_by_day(statements, instants, since)
    totals = (_expense_total(*row) for row in rows)
    return [total for total in totals if total.kind != "turns"]


def _rows_by_day(
    statements: Sequence[str], instants: QuerySet[Any, datetime], since: datetime
) -> list[tuple[Any, ...]]:
    """Return a row for each day and statement; `instants` are in order."""
    # In two queries: for both together SQLite would scan all rows in between.
    earliest, latest = instants.first(), instants.last()
    if earliest is None or latest is None:
        return []
    first = datetime.combine(earliest.astimezone(UTC), time.min, UTC)
    days = [first + number * DAY for number in range((latest - first).days + 1)]
    batches = (
        days[at : at + DAYS_PER_QUERY] for at in range(0, len(days), DAYS_PER_QUERY)
    )
    return [row for batch in batches for row in _query_days(statements, batch, since)]


def _query_days(
    statements: Sequence[str], days: Sequence[datetime], since: datetime
) -> list[tuple[Any, ...]]:
    adapt = connection.ops.adapt_datetimefield_value
    values = [
        value
        for day in days
        for _ in statements
        for value in (f"{day:%Y-%m-%d}", adapt(max(day, since)), adapt(day + DAY))
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([*statements] * len(days)), values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def counted_unit(dimension: Dimension) -> str:
    """Return the counted unit: calls for models and providers, otherwise turns."""
    return "calls" if dimension in CALLS_KEYS else "turns"


def sum_totals(totals: Sequence[CostTotal]) -> CostTotal:
    sums = {
        field.name: sum(getattr(total, field.name) for total in totals)
        for field in fields(CostTotal)
        if field.name != "key"
    }
    return CostTotal(None, **sums)


def with_savings(config: Config, totals: Iterable[CostTotal]) -> list[CostTotal]:
    """Return the totals of models with what prompt caching saved.

    At current prices of short prompts; 0 for models without a known price.
    """
    return [
        replace(
            total,
            saved_micro_usd=call_costs.cache_saving(
                config, total.key, total.cache_read_tokens, total.cache_write_tokens
            )
            or 0,
        )
        if total.key and (total.cache_read_tokens or total.cache_write_tokens)
        else total
        for total in totals
    ]


def oldest_turn_at() -> datetime | None:
    oldest: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return oldest


def _expense_total(
    purpose: str, key: Any, count: int, unpriced: int, *sums: Any
) -> CostTotal:
    total = _turn_total(key, 0, 0, *sums)
    if purpose == ExpensePurpose.JUDGE:
        return replace(total, judgements=count, unpriced_judgements=unpriced)
    return replace(total, embeddings=count, unpriced_embeddings=unpriced)


def _turn_total(
    key: Any,
    turns: int,
    unpriced: int,
    input_sum: int | None,
    output_sum: int | None,
    cost_sum: int | None,
    cache_read_sum: int | None = None,
    cache_write_sum: int | None = None,
) -> CostTotal:
    # An empty sum is null; PostgreSQL's sums of bigint are decimals.
    return CostTotal(
        None if key is None else str(key),
        turns,
        unpriced,
        int(input_sum or 0),
        int(output_sum or 0),
        int(cost_sum or 0),
        cache_read_tokens=int(cache_read_sum or 0),
        cache_write_tokens=int(cache_write_sum or 0),
    )
