"""What models were asked outside of turns, kept for `spend` to add up."""

from dataclasses import dataclass
from datetime import UTC, datetime

from core.events import Usage
from telemetry import rows, text
from telemetry.config import TelemetryConfig
from telemetry.models import Expense, Purpose


@dataclass(frozen=True, slots=True)
class Paid:
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


def add(paid: Paid, settings: TelemetryConfig) -> None:
    """Keep what a judge took, unless nothing is recorded or nothing was answered.

    In the caller's transaction.
    """
    if not settings.sqlite.enabled or not paid.calls:
        return
    Expense.objects.create(
        purpose=Purpose.JUDGE,
        name=text.name(paid.judge),
        agent=text.name(paid.agent),
        provider=text.name(paid.provider),
        model=text.name(paid.model),
        spent_at=datetime.now(UTC),
        model_calls=paid.calls,
        cost_micro_usd=paid.cost_micro_usd,
        **dict(zip(rows.USAGE, rows.counts(paid.usage), strict=True)),
    )
