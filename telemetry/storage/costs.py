"""What models were asked outside of turns, kept for `spend` to add up."""

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
    """What a judge was asked about one reply, and what that took."""

    judge: str
    agent: str
    """Whose reply it was."""
    provider: str
    model: str
    calls: int
    usage: Usage
    """Of all calls together."""
    cost_micro_usd: int | None
    """None where no price is known."""


def record_expense(paid: JudgeExpense, settings: TelemetryConfig) -> None:
    """Keep what a judge took, unless nothing is recorded or nothing was answered.

    In the caller's transaction.
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
    """What a judge took in some time."""

    judgements: int
    micro_usd: int
    """As far as it is known."""
    unpriced: int
    """Those whose cost is not known."""


def judge_costs(judge: str, since: Mapping[str, datetime]) -> dict[str, JudgeCost]:
    """Return what a judge took from each of these instants on, by their names.

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
