"""Totals of turns."""

from typing import Annotated, Any

from django.db.models import BigIntegerField, Count, F, Q, Sum
from django.db.models.functions import Cast, Coalesce
from pydantic import BaseModel, Field, PlainSerializer, SerializationInfo

from telemetry.models.choices import Outcome
from telemetry.statistics.time_buckets import DayBucket, HourBucket, UnindexedColumn

WITHOUT_SPEND = "without_spend"
"""In the context of a serialization: the reader may not see money."""


def _sum(field: str) -> Any:
    # PostgreSQL's sum of bigint is a decimal, and an empty sum is null.
    return Cast(Coalesce(Sum(field), 0), BigIntegerField())


KEYS: dict[str, Any] = {
    # SQLite would take another index for the groups, and read the rows.
    "agent": UnindexedColumn("agent"),
    "day": DayBucket("started_at"),
    "hour": HourBucket("started_at"),
    "token": F("token_id"),
    "user": F("user_id"),
}
COST_AGGREGATES: dict[str, Any] = {
    "turns": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "micro_usd": _sum("known_cost_micro_usd"),
}
AGGREGATES: dict[str, Any] = {
    **COST_AGGREGATES,
    "errors": Count("id", filter=Q(outcome=Outcome.ERROR)),
    "cancelled": Count("id", filter=Q(outcome=Outcome.CANCELLED)),
    "input_tokens": _sum("input_tokens"),
    "output_tokens": _sum("output_tokens"),
}


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
