"""What the recorded turns cost, added up by the database."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from django.db.models import Count, F, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat, TruncDate

from telemetry.models import ModelCall, Turn

Of = Literal["agent", "day", "model", "provider", "token", "user"]
OF: tuple[Of, ...] = get_args(Of)

KEYS: dict[Of, Any] = {
    "agent": F("turn__agent"),
    "day": TruncDate("turn__started_at", tzinfo=UTC),
    "model": Concat(F("provider"), Value("/"), F("model")),
    # By the bare column, SQLite would read all calls there are in its order.
    "provider": Concat(F("provider"), Value("")),
    "token": F("turn__token_id"),
    "user": F("turn__user_id"),
}
"""A turn counts for the agent that was asked, whichever it called in its turn."""

SUMS = {
    "turns": Count("turn_id", distinct=True),
    # Who failed used nothing; who used something and has no cost has no known price.
    "unknown": Count(
        "turn_id",
        distinct=True,
        filter=Q(cost_micro_usd=None, input_tokens__isnull=False),
    ),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent on one of a sort, or on all."""

    key: str | None
    """None is of none, such as no token; or of all."""
    turns: int
    """Those that asked a model."""
    unknown: int
    """Those of them that cost more than is known."""
    input_tokens: int
    output_tokens: int
    micro_usd: int
    """As far as it is known."""


def by(what: Of, since: datetime) -> list[Spent]:
    """Return what turns cost that began then or later: the dearest first, days in
    their order.

    One query, which finds the turns by their time and each turn's calls by the turn.
    """
    grouped = _calls(since).values(key=KEYS[what]).annotate(**SUMS).order_by()
    found = [_spent(*row) for row in grouped.values_list("key", *SUMS)]
    if what == "day":
        return sorted(found, key=lambda spent: spent.key or "")
    return sorted(found, key=lambda spent: (-spent.micro_usd, spent.key or ""))


def total(since: datetime) -> Spent:
    """Return what all turns cost together that began then or later."""
    return _spent(None, **_calls(since).aggregate(**SUMS))


def oldest() -> datetime | None:
    """Return when the oldest recorded turn began."""
    found: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return found


def _calls(since: datetime) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(turn__started_at__gte=since)


def _spent(
    key: Any,
    turns: int,
    unknown: int,
    input_sum: int | None,
    output_sum: int | None,
    cost_sum: int | None,
) -> Spent:
    # A sum of nothing is null; PostgreSQL's of big integers are decimals.
    sums = (int(value or 0) for value in (input_sum, output_sum, cost_sum))
    return Spent(None if key is None else str(key), turns, unknown, *sums)
