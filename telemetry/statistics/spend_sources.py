"""What spending is summed: turns, calls and expenses, or their hourly totals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet, UUIDField, Value

from database.repeated_queries import EARLIEST, LATEST
from telemetry.models import Expense, ExpensePurpose, HourlyTotal, ModelCall, Turn
from telemetry.models.hourly_totals import TotalKind
from telemetry.models.turn_totals import AGGREGATES, KEYS, sum_of
from telemetry.statistics.period_sums import Expressions, Source
from telemetry.statistics.time_buckets import UnindexedColumn

Dimension = Literal["agent", "day", "model", "provider", "token", "user"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

MODEL_KEYS: dict[str, Expressions] = {
    "model": {"provider": F("provider"), "model": F("model")},
    "provider": {"provider": F("provider")},
}
TURN_KEYS: dict[str, Expressions] = {
    **{name: {"key": KEYS[name]} for name in ("agent", "token", "user")},
    "day": {},
}
CALL_KEYS: dict[str, Expressions] = {
    **MODEL_KEYS,
    "agent": {"key": F("turn__agent")},
    "token": {"key": F("turn__token_id")},
    "user": {"key": F("turn__user_id")},
    "day": {},
}
TOTALS_KEYS: dict[str, Expressions] = {
    **MODEL_KEYS,
    "agent": {"key": F("agent")},
    "token": {"key": F("token_id")},
    "day": {},
}
# Expenses have no user and no token.
NO_KEY: Expressions = {"key": Value(None, output_field=UUIDField())}
EXPENSE_KEYS: dict[str, Expressions] = {
    **MODEL_KEYS,
    "agent": {"key": F("agent")},
    "token": NO_KEY,
    "user": NO_KEY,
    "day": {},
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
CACHE_SUMS = {
    name: sum_of(name) for name in ("cache_read_tokens", "cache_write_tokens")
}
# A failed call has no usage; a call with usage and no cost has no known price.
IS_UNPRICED = Q(cost_micro_usd=None, input_tokens__isnull=False)
CALL_SUMS = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=IS_UNPRICED),
    **TOKEN_SUMS,
    **CACHE_SUMS,
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

# The same sums of hourly totals.
TOTALS_TOKENS = {
    name: sum_of(name) for name in ("input_tokens", "output_tokens", "micro_usd")
}
TOTALS_TURN_SUMS = {
    "turns": sum_of("turns"),
    "unpriced": sum_of("unpriced_turns"),
    **TOTALS_TOKENS,
}
TOTALS_CALL_SUMS = {
    "turns": sum_of("number"),
    "unpriced": sum_of("unpriced"),
    **TOTALS_TOKENS,
    **CACHE_SUMS,
}
OF_JUDGES = Q(kind=TotalKind.JUDGE)
TOTALS_EXPENSE_SUMS = {
    "judgements": sum_of("number", OF_JUDGES),
    "unpriced_judgements": sum_of("unpriced", OF_JUDGES),
    "embeddings": sum_of("number", ~OF_JUDGES),
    "unpriced_embeddings": sum_of("unpriced", ~OF_JUDGES),
    **TOTALS_TOKENS,
}


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
        """Return the model calls of the turns that started since then."""
        calls = ModelCall.objects.filter(turn__started_at__gte=since)
        names = ("turn__", "turn__started_at", "turn__agent", "turn__token_id")
        return calls.filter(**self._conditions(*names), **self._of_model())

    def expenses(self, since: datetime) -> QuerySet[Expense]:
        """Return the expenses since then, which are of no user and of no token."""
        expenses = Expense.objects.filter(spent_at__gte=since)
        if self.user_id is not None or self.token_ids is not None:
            return expenses.none()
        names = ("", "spent_at", "agent", "")
        return expenses.filter(**self._conditions(*names), **self._of_model())

    def totals(self, *kinds: TotalKind) -> QuerySet[HourlyTotal]:
        """Return the hourly totals of any time."""
        totals = HourlyTotal.objects.filter(kind__in=kinds, has_calls=True)
        names = ("", "hour", "agent", "token_id")
        anytime = replace(self, until=None)
        return totals.filter(**anytime._conditions(*names), **self._of_model())

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


def turns_source(dimension: Dimension, chosen: SpendFilter) -> Source:
    """Return the turns to sum, or the calls if models are asked for."""
    anytime = replace(chosen, until=LATEST)
    totals_keys = TOTALS_KEYS.get(dimension, {})
    if dimension in MODEL_KEYS or chosen.model:
        is_by_call = dimension in MODEL_KEYS
        return Source(
            anytime.calls(EARLIEST),
            "turn__started_at",
            CALL_KEYS[dimension],
            CALL_SUMS if is_by_call else TURNS_OF_CALLS_SUMS,
            _totals(dimension, chosen, TotalKind.CALL),
            totals_keys,
            TOTALS_CALL_SUMS if is_by_call else TOTALS_TURN_SUMS,
        )
    by_token = dimension == "token" or chosen.token_ids is not None
    kind = TotalKind.TOKEN if by_token else TotalKind.TURN
    totals = _totals(dimension, chosen, kind)
    turns, keys = anytime.turns(EARLIEST), TURN_KEYS[dimension]
    return Source(
        turns, "started_at", keys, TURN_SUMS, totals, totals_keys, TOTALS_TURN_SUMS
    )


def expenses_source(dimension: Dimension, chosen: SpendFilter) -> Source:
    """Return the expenses to sum; the last key is their purpose."""
    keys = EXPENSE_KEYS[dimension]
    return Source(
        replace(chosen, until=LATEST).expenses(EARLIEST),
        "spent_at",
        {**keys, "purpose": F("purpose")},
        EXPENSE_SUMS,
        _totals("day", chosen, TotalKind.JUDGE, TotalKind.EMBEDDING),
        {**keys, "purpose": F("kind")},
        TOTALS_EXPENSE_SUMS,
    )


def _totals(dimension: Dimension, chosen: SpendFilter, *kinds: TotalKind) -> Any:
    """Return the hourly totals to sum; None if they do not have what is asked for."""
    by_user = dimension == "user" or chosen.user_id is not None
    by_token = dimension == "token" or chosen.token_ids is not None
    if by_user or (by_token and TotalKind.TOKEN not in kinds):
        return None
    return chosen.totals(*kinds)
