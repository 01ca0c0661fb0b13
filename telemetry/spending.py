"""What the recorded turns and their judges cost, added up by the database."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from django.db.models import CharField, Count, F, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat, TruncDate

from telemetry.models import Expense, ModelCall, Turn

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


JUDGES_KEYS: dict[Of, Any] = {
    "agent": F("agent"),
    "day": TruncDate("spent_at", tzinfo=UTC),
    "model": Concat(F("provider"), Value("/"), F("model")),
    "provider": F("provider"),
    # The operator pays, whoever was answered.
    "token": Value(None, output_field=CharField()),
    "user": Value(None, output_field=CharField()),
}

JUDGES_SUMS = {
    "judgements": Count("id"),
    "unknown_judgements": Count("id", filter=Q(cost_micro_usd=None)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "cost_sum": Sum("cost_micro_usd"),
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent on one of a sort, by its turns or by its judges, or on all."""

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
    judgements: int = 0
    """Times that a judge was asked about a reply: of judges alone, which have no turns,
    and of all."""
    unknown_judgements: int = 0
    """Those of them whose cost is not known."""


def by(what: Of, since: datetime) -> list[Spent]:
    """Return what was spent then or later, on turns and, apart, on their judges: the
    dearest first, days in their order.

    Two queries. That of turns finds them by their time and each turn's calls by the
    turn.
    """
    turns = _calls(since).values(key=KEYS[what]).annotate(**SUMS).order_by()
    judges = _judges(since).values(key=JUDGES_KEYS[what]).annotate(**JUDGES_SUMS)
    found = [_spent(*row) for row in turns.values_list("key", *SUMS)]
    told = judges.order_by().values_list("key", *JUDGES_SUMS)
    # Where there is nothing, a sum over all of it is a row all the same.
    found += [spent for row in told if (spent := _judged(*row)).judgements]
    if what == "day":
        return sorted(found, key=lambda spent: (spent.key or "", spent.judgements))
    return sorted(found, key=lambda spent: (-spent.micro_usd, spent.key or ""))


def total(since: datetime) -> Spent:
    """Return what was spent then or later, on turns and judges together."""
    turns = _spent(None, **_calls(since).aggregate(**SUMS))
    judges = _judged(None, **_judges(since).aggregate(**JUDGES_SUMS))
    return replace(
        turns,
        input_tokens=turns.input_tokens + judges.input_tokens,
        output_tokens=turns.output_tokens + judges.output_tokens,
        micro_usd=turns.micro_usd + judges.micro_usd,
        judgements=judges.judgements,
        unknown_judgements=judges.unknown_judgements,
    )


def oldest() -> datetime | None:
    """Return when the oldest recorded turn began."""
    found: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return found


def _calls(since: datetime) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(turn__started_at__gte=since)


def _judges(since: datetime) -> QuerySet[Expense]:
    return Expense.objects.filter(spent_at__gte=since)


def _judged(
    key: Any, judgements: int, unknown_judgements: int, *sums: Any, **named: Any
) -> Spent:
    return replace(
        _spent(key, 0, 0, *sums, **named),
        judgements=judgements,
        unknown_judgements=unknown_judgements,
    )


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
