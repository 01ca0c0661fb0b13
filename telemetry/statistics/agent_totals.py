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
from telemetry.statistics.time_buckets import Plain

SUMS: dict[str, Any] = {
    "turns": Count("id"),
    "failed": Count("id", filter=Q(outcome=Outcome.ERROR)),
    "micro_usd": Sum("known_micro_usd"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "mean_seconds": Avg("seconds"),
}


@dataclass(frozen=True, slots=True)
class Lately:
    """The recorded turns of one agent, those that it was asked."""

    turns: int = 0
    failed: int = 0
    micro_usd: int = 0
    """As far as it is known."""
    unpriced: int = 0
    """Turns that cost more than is known."""
    mean_seconds: float | None = None


def by_agent(since: datetime, agent: str | None = None) -> Mapping[str, Lately]:
    """Return what each agent, or one of them, did then or later; in one query."""
    turns = Turn.objects.filter(started_at__gte=since).exclude(origin=Origin.SHADOW)
    if agent is not None:
        turns = turns.filter(agent=agent)
    rows = turns.order_by().values(of=Plain("agent")).annotate(**SUMS)
    return {name: _lately(*sums) for name, *sums in rows.values_list("of", *SUMS)}


def _lately(turns: int, failed: int, micro_usd: Any, *others: Any) -> Lately:
    # A sum of nothing is null; PostgreSQL's of big integers is a decimal.
    return Lately(turns, failed, int(micro_usd or 0), *others)
