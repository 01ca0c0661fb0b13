"""Recent totals of agents: turns, failures, costs.

Counts turns of users and tasks, as `recent_activity` does, without shadow runs. All is
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
    """The recorded turns that were requested from one agent."""

    turns: int = 0
    failed: int = 0
    micro_usd: int = 0
    """The known part."""
    unpriced: int = 0
    """Turns whose cost is not fully known."""
    mean_seconds: float | None = None


def totals_by_agent(
    since: datetime, agent: str | None = None
) -> Mapping[str, AgentTotals]:
    """Return the totals of each agent, or of one, since then; in one query."""
    turns = Turn.objects.filter(started_at__gte=since).exclude(origin=Origin.SHADOW)
    if agent is not None:
        turns = turns.filter(agent=agent)
    groups = turns.order_by().values(agent_name=UnindexedColumn("agent"))
    rows = groups.annotate(**AGGREGATES).values_list("agent_name", *AGGREGATES)
    return {name: _agent_totals(*sums) for name, *sums in rows}


def _agent_totals(turns: int, failed: int, micro_usd: Any, *others: Any) -> AgentTotals:
    # An empty sum is null; PostgreSQL's sum of bigint is a decimal.
    return AgentTotals(turns, failed, int(micro_usd or 0), *others)
