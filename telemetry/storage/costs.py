"""Costs of model calls outside turns, stored for `spend`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Q, Sum

from core.events import Usage
from telemetry.config import TelemetryConfig
from telemetry.models import Expense, ExpensePurpose
from telemetry.storage import row_mapping, stored_text


@dataclass(frozen=True, slots=True)
class JudgeExpense:
    """The model calls of a judge about one reply."""

    judge: str
    agent: str
    """The agent that replied."""
    provider: str
    model: str
    calls: int
    usage: Usage
    """Sum of all calls."""
    cost_micro_usd: int | None
    """None if no price is known."""


def record_expense(paid: JudgeExpense, settings: TelemetryConfig) -> None:
    """Store a judge's usage, unless recording is off or no call was answered.

    Runs in the caller's transaction.
    """
    if not settings.sqlite.enabled or not paid.calls:
        return
    Expense.objects.create(
        purpose=ExpensePurpose.JUDGE,
        name=stored_text.truncate_name(paid.judge),
        agent=stored_text.truncate_name(paid.agent),
        provider=stored_text.truncate_name(paid.provider),
        model=stored_text.truncate_name(paid.model),
        spent_at=datetime.now(UTC),
        model_calls=paid.calls,
        cost_micro_usd=paid.cost_micro_usd,
        **dict(
            zip(
                row_mapping.USAGE_COLUMNS,
                row_mapping.usage_counts(paid.usage),
                strict=True,
            )
        ),
    )


@dataclass(frozen=True, slots=True)
class JudgeCost:
    """A judge's usage in a period."""

    judgements: int
    micro_usd: int
    """The known part."""
    unpriced: int
    """Those whose cost is unknown."""


def judge_costs(judge: str, since: Mapping[str, datetime]) -> dict[str, JudgeCost]:
    """Return a judge's usage since each of these instants, by their names.

    In one query.
    """
    sums: dict[str, Any] = {}
    for name, begin in since.items():
        within = Q(spent_at__gte=begin)
        sums[f"count_{name}"] = Count("id", filter=within)
        sums[f"unpriced_{name}"] = Count("id", filter=within & Q(cost_micro_usd=None))
        sums[f"cost_{name}"] = Sum("cost_micro_usd", filter=within)
    found = Expense.objects.filter(
        purpose=ExpensePurpose.JUDGE,
        name=stored_text.truncate_name(judge),
        spent_at__gte=min(since.values()),
    ).aggregate(**sums)
    return {
        name: JudgeCost(
            found[f"count_{name}"],
            int(found[f"cost_{name}"] or 0),
            found[f"unpriced_{name}"],
        )
        for name in since
    }
