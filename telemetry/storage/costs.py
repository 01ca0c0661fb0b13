"""Costs of model calls outside turns, stored for `spend`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Q, Sum

from core.events import Usage
from telemetry.config import TelemetryConfig
from telemetry.metrics import recording
from telemetry.models import Expense, ExpensePurpose
from telemetry.storage import row_mapping, stored_text


@dataclass(frozen=True, slots=True)
class CallExpense:
    """Model calls outside turns: of a judge about one reply, or of one request."""

    name: str
    """The judge; for embeddings the endpoint."""
    agent: str
    """The agent that replied; empty for embeddings."""
    provider: str
    model: str
    calls: int
    usage: Usage
    """Sum of all calls."""
    cost_micro_usd: int | None
    """None if no price is known."""
    purpose: ExpensePurpose = ExpensePurpose.JUDGE


def record_expense(expense: CallExpense, settings: TelemetryConfig) -> None:
    """Store the usage of calls, unless recording is off or no call succeeded.

    Runs in the caller's transaction.
    """
    if not expense.calls:
        return
    if recording.active is not None:
        recording.active.expense_recorded(expense.purpose, expense.cost_micro_usd)
    if not settings.sqlite.enabled:
        return
    Expense.objects.create(
        purpose=expense.purpose,
        name=stored_text.truncate_name(expense.name),
        agent=stored_text.truncate_name(expense.agent),
        provider=stored_text.truncate_name(expense.provider),
        model=stored_text.truncate_name(expense.model),
        spent_at=datetime.now(UTC),
        model_calls=expense.calls,
        cost_micro_usd=expense.cost_micro_usd,
        **dict(
            zip(
                row_mapping.USAGE_COLUMNS,
                row_mapping.usage_counts(expense.usage),
                strict=True,
            )
        ),
    )


@dataclass(frozen=True, slots=True)
class JudgeCost:
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
    row = Expense.objects.filter(
        purpose=ExpensePurpose.JUDGE,
        name=stored_text.truncate_name(judge),
        spent_at__gte=min(since.values()),
    ).aggregate(**sums)
    return {
        name: JudgeCost(
            row[f"count_{name}"],
            int(row[f"cost_{name}"] or 0),
            row[f"unpriced_{name}"],
        )
        for name in since
    }
