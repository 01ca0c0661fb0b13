"""What agents did of late: turns, failures, what they cost.

As `glance` counts: what users and tasks asked for, not trials of other variants. All is
read from one index.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, Q, Sum

from telemetry.models import Origin, Outcome, Turn
from telemetry.statistics.time_buckets import UnindexedColumn

AGGREGATES: dict[str, Any] = {
    "turns": Count("id"),
    "failed": Count("id", filter=Q(outcome=Outcome.ERROR)),
    "micro_usd": Sum("known_cost_micro_usd"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "mean_seconds": Avg("seconds"),
}


@dataclass(frozen=True, slots=True)
class AgentTotals:
    """The recorded turns of one agent, those that it was asked."""

    turns: int = 0
    failed: int = 0
    micro_usd: int = 0
    """As far as it is known."""
    unpriced: int = 0
    """Turns that cost more than is known."""
    mean_seconds: float | None = None


def totals_by_agent(
    since: datetime, agent: str | None = None
) -> Mapping[str, AgentTotals]:
    """Return what each agent, or one of them, did then or later; in one query."""
    turns = Turn.objects.filter(started_at__gte=since).exclude(origin=Origin.SHADOW)
    if agent is not None:
        turns = turns.filter(agent=agent)
    rows = turns.order_by().values(of=UnindexedColumn("agent")).annotate(**AGGREGATES)
    return {
        name: _agent_totals(*sums)
        for name, *sums in rows.values_list("of", *AGGREGATES)
    }


def _agent_totals(turns: int, failed: int, micro_usd: Any, *others: Any) -> AgentTotals:
    # A sum of nothing is null; PostgreSQL's of big integers is a decimal.
    return AgentTotals(turns, failed, int(micro_usd or 0), *others)
