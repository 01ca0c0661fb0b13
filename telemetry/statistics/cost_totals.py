"""Costs of turns, of their judges and of embeddings, summed by the database."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal, get_args
from uuid import UUID

from django.db.models import Count, F, Min, Q, QuerySet, UUIDField, Value

from config.sections import Config
from database.repeated_queries import EARLIEST, LATEST, run_for_each
from providers.pricing import call_costs
from telemetry.models import Expense, ExpensePurpose, ModelCall, Turn
from telemetry.models.turn_totals import AGGREGATES, KEYS, sum_groups, sum_of
from telemetry.statistics.time_buckets import UnindexedColumn

Dimension = Literal["agent", "day", "model", "provider", "token", "user"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

Expressions = Mapping[str, Any]

MODEL_KEYS: dict[str, Expressions] = {
    "model": {"provider": F("provider"), "model": F("model")},
    "provider": {"provider": F("provider")},
}
CALL_KEYS: Expressions = {
    "agent": F("turn__agent"),
    "token": F("turn__token_id"),
    "user": F("turn__user_id"),
}
EXPENSE_KEYS: dict[str, Expressions] = {
    **MODEL_KEYS,
    "agent": {"key": F("agent")},
    # Expenses have no user.
    "token": {"key": Value(None, output_field=UUIDField())},
    "user": {"key": Value(None, output_field=UUIDField())},
}

TURN_SUMS = {
    name: AGGREGATES[name]
    for name in ("turns", "unpriced", "input_tokens", "output_tokens", "micro_usd")
}
TOKEN_SUMS = {
    "input_tokens": sum_of("input_tokens"),
    "output_tokens": sum_of("output_tokens"),
    "micro_usd": sum_of("cost_micro_usd"),
}
# A failed call has no usage; a call with usage and no cost has no known price.
IS_UNPRICED = Q(cost_micro_usd=None, input_tokens__isnull=False)
CALL_SUMS = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=IS_UNPRICED),
    **TOKEN_SUMS,
    "cache_read_tokens": sum_of("cache_read_tokens"),
    "cache_write_tokens": sum_of("cache_write_tokens"),
}
TURNS_OF_CALLS_SUMS = {
    "turns": Count("turn", distinct=True),
    "unpriced": Count("turn", distinct=True, filter=IS_UNPRICED),
    **TOKEN_SUMS,
}
"""The turns with calls of a model, and what these calls cost."""
IS_JUDGE = Q(purpose=ExpensePurpose.JUDGE)
EXPENSE_SUMS = {
    "judgements": Count("id", filter=IS_JUDGE),
    "unpriced_judgements": Count("id", filter=IS_JUDGE & Q(cost_micro_usd=None)),
    "embeddings": Count("id", filter=~IS_JUDGE),
    "unpriced_embeddings": Count("id", filter=~IS_JUDGE & Q(cost_micro_usd=None)),
    **TOKEN_SUMS,
}

Kind = Literal["turns", "judges", "embeddings"]
KINDS = get_args(Kind)

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CostTotal:
    """The cost of one key of a dimension: of turns, judges or embeddings; or of all."""

    key: str | None
    """None for turns without a token, for expenses by user or token, and for the
    total."""
    turns: int = 0
    """Turns with model calls; for a model or a provider, its calls."""
    unpriced: int = 0
    """Those whose cost is not fully known."""
    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: int = 0
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
    """What the cache saved; negative if it cost more to write than reads saved."""

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
    config: Config | None = None,
    limit: int | None = None,
) -> list[CostTotal]:
    """Return the costs since then, of turns, of judges and of embeddings.

    Days are in order, other keys by cost, highest first. With the configuration, the
    totals of models have their savings. `limit` bounds the number of users or tokens.
    Takes a few queries, of indexes alone.
    """
    if dimension == "day":
        turns = (
            _sum_by_day(chosen, since, SpendFilter.calls, TURNS_OF_CALLS_SUMS)
            if chosen.model
            else _sum_by_day(chosen, since, SpendFilter.turns, TURN_SUMS)
        )
        expenses = _sum_by_day(chosen, since, SpendFilter.expenses, EXPENSE_SUMS)
        totals = [*turns, *expenses]
        return sorted(totals, key=lambda each: (each.key, KINDS.index(each.kind)))
    totals = _turn_totals(dimension, since, chosen, limit)
    if dimension == "model" and config is not None:
        totals = [_add_saving(config, total) for total in totals]
    keys = EXPENSE_KEYS[dimension]
    totals += _totals(chosen.expenses(since), keys, EXPENSE_SUMS, apart=["purpose"])
    return sorted(totals, key=lambda total: (-total.micro_usd, total.key or ""))


def _turn_totals(
    dimension: Dimension, since: datetime, chosen: SpendFilter, limit: int | None
) -> list[CostTotal]:
    """Return the totals of turns, or of calls for a model."""
    if dimension in MODEL_KEYS:
        return _totals(chosen.calls(since), MODEL_KEYS[dimension], CALL_SUMS)
    if chosen.model:
        calls, keys = chosen.calls(since), {"key": CALL_KEYS[dimension]}
        return _totals(calls, keys, TURNS_OF_CALLS_SUMS, limit=limit)
    keys = {"key": KEYS[dimension]}
    return _totals(chosen.turns(since), keys, TURN_SUMS, limit=limit)


def _totals(
    rows: QuerySet[Any], keys: Expressions, sums: Expressions, **options: Any
) -> list[CostTotal]:
    """Return the totals of groups; several keys are joined by slashes."""
    end = len(keys)
    return [
        CostTotal(
            None if row[0] is None else "/".join(map(str, row[:end])),
            **dict(zip(sums, row[end:], strict=True)),
        )
        for row in sum_groups(rows, keys, sums, **options)
    ]


def _sum_by_day(
    chosen: SpendFilter,
    since: datetime,
    select: Callable[[SpendFilter, datetime], QuerySet[Any]],
    sums: Expressions,
) -> Iterator[CostTotal]:
    """Yield the totals of each day that has any.

    Each day is a range of an index, because for groups databases would sort all rows.
    """
    rows = select(replace(chosen, until=LATEST), EARLIEST)
    is_expense = rows.model is Expense
    at = "spent_at" if is_expense else "started_at"
    instants = select(chosen, since).order_by(at).values_list(at, flat=True)
    # In two queries: for both together SQLite would scan all rows in between.
    first, last = instants.first(), instants.last()
    if first is None or last is None:
        return
    apart = ["purpose"] if is_expense else []
    groups = sum_groups(rows, {"all": Value(1)}, sums, apart=apart)
    for day, (_, *row) in run_for_each(groups, _days(first, last)):
        total = CostTotal(day, **dict(zip(sums, row, strict=True)))
        if is_expense or total.turns:
            yield total


def _days(
    first: datetime, last: datetime
) -> Iterator[tuple[str, Mapping[datetime, datetime]]]:
    """Yield each day (UTC), and its part of a period."""
    start = datetime.combine(first.astimezone(UTC), time.min, UTC)
    while start <= last:
        end = min(start + DAY - datetime.resolution, last)
        yield f"{start:%Y-%m-%d}", {EARLIEST: max(start, first), LATEST: end}
        start += DAY


def counted_unit(dimension: Dimension) -> str:
    """Return the counted unit: calls for models and providers, otherwise turns."""
    return "calls" if dimension in MODEL_KEYS else "turns"


def sum_totals(totals: Sequence[CostTotal]) -> CostTotal:
    sums = {
        field.name: sum(getattr(total, field.name) for total in totals)
        for field in fields(CostTotal)
        if field.name != "key"
    }
    return CostTotal(None, **sums)


def _add_saving(config: Config, total: CostTotal) -> CostTotal:
    """Return a model's total with what prompt caching saved.

    At current prices of short prompts; 0 without a known price.
    """
    cached = total.cache_read_tokens, total.cache_write_tokens
    if total.key is None or not any(cached):
        return total
    saved = call_costs.cache_saving(config, total.key, *cached)
    return replace(total, saved_micro_usd=saved or 0)


def oldest_turn_at() -> datetime | None:
    oldest: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return oldest
