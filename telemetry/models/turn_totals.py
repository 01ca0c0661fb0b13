"""Totals of turns."""

from collections.abc import Mapping
from typing import Annotated, Any

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum
from django.db.models.functions import Cast, Coalesce
from pydantic import BaseModel, Field, PlainSerializer, SerializationInfo

from telemetry.models.choices import Outcome
from telemetry.statistics.time_buckets import HourBucket, UnindexedColumn

WITHOUT_SPEND = "without_spend"
"""In the context of a serialization: the reader may not see money."""


def sum_of(field: str, which: Q | None = None) -> Any:
    """Return the sum as an integer, which is 0 without rows."""
    # PostgreSQL's sum of bigint is a decimal, and an empty sum is null.
    return Cast(Coalesce(Sum(field, filter=which), 0), BigIntegerField())


KEYS: dict[str, Any] = {
    # SQLite would take another index for the groups, and read the rows.
    "agent": UnindexedColumn("agent"),
    "hour": HourBucket("started_at"),
    "token": F("token_id"),
    "user": F("user_id"),
}
COST_AGGREGATES: dict[str, Any] = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "micro_usd": sum_of("known_cost_micro_usd"),
}
AGGREGATES: dict[str, Any] = {
    **COST_AGGREGATES,
    "errors": Count("id", filter=Q(outcome=Outcome.ERROR)),
    "cancelled": Count("id", filter=Q(outcome=Outcome.CANCELLED)),
    "input_tokens": sum_of("input_tokens"),
    "output_tokens": sum_of("output_tokens"),
}


def sum_groups(
    rows: QuerySet[Any], keys: Mapping[str, Any], sums: Mapping[str, Any]
) -> Any:
    """Return a query for the keys and the sums of each group, as tuples."""
    # The names differ from those of the columns.
    by = {f"by_{name}": key for name, key in keys.items()}
    totals = {f"{name}_total": each for name, each in sums.items()}
    groups: Any = rows.order_by().values(**by).annotate(**totals)
    return groups.values_list(*by, *totals)


def _visible_money(value: int, info: SerializationInfo) -> int | None:
    return None if info.context and info.context.get(WITHOUT_SPEND) else value


MicroUsd = Annotated[int, PlainSerializer(_visible_money)]


class TurnTotals(BaseModel):
    """Totals of turns; money in micro-USD."""

    turns: int = 0
    errors: int = 0
    cancelled: int = Field(0, description="The client disconnected.")
    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: MicroUsd = Field(
        0,
        description="Without unpriced turns; null without the permission for spend.",
    )
    unpriced: int = Field(0, description="Turns without a price.")

    def add(self, other: "TurnTotals") -> None:
        """Add the turns of another sum."""
        for name in AGGREGATES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def share_of_errors(self) -> float | None:
        """Return the share of failed turns; None without turns."""
        return self.errors / self.turns if self.turns else None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens
