"""Statistics of the last hours: turns, users, tokens, cost, errors, durations.

Covers turns of users and tasks; shadow runs are counted separately. Counts and
sums are of the hourly totals of finished hours, the rest is read from one index.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

from django.db.models import Count, F, Q
from pydantic import BaseModel, Field

from database.repeated_queries import EARLIEST, LATEST
from telemetry.models import (
    Expense,
    HourlyTotal,
    Origin,
    Turn,
    TurnQuerySet,
    TurnTotals,
)
from telemetry.models.hourly_totals import HOUR, TotalKind
from telemetry.models.turn_totals import AGGREGATES, KEYS, MicroUsd, sum_of
from telemetry.statistics import period_sums
from telemetry.statistics.period_sums import Source
from telemetry.statistics.time_buckets import HourBucket


class Durations(BaseModel):
    """Durations of the complete replies, without those of errors."""

    p50_seconds: float | None = Field(None, description="The median.")
    p95_seconds: float | None = None

    def set_percentiles(self, seconds: Iterable[float]) -> None:
        ordered = sorted(seconds)
        self.p50_seconds = percentile(ordered, 0.5)
        self.p95_seconds = percentile(ordered, 0.95)


class HourStats(TurnTotals, Durations):
    at: datetime
    users: int = 0


class AgentStats(TurnTotals, Durations):
    agent: str


class ActivitySummary(TurnTotals, Durations):
    """All turns, and by hour and agent."""

    since: datetime
    users: int = 0
    shadow_runs: int = Field(0, description="Not included in the other figures.")
    judges_micro_usd: MicroUsd = 0
    judges_unpriced: int = 0
    hours: list[HourStats] = Field([], description="Every hour in order.")
    agents: Sequence[AgentStats] = Field([], description="Busiest first.")


def summarize_since(at: datetime, now: datetime) -> ActivitySummary:
    """Return the statistics since then, in six queries.

    The first and the last hour may be partial.
    """
    turns = Turn.objects.filter(started_at__gte=at)
    user_turns = turns.without_shadow_runs()
    by_hour = {
        f"{hour:%Y-%m-%d %H}": HourStats(at=hour) for hour in _iterate_hours(at, now)
    }
    summary = ActivitySummary(since=at, hours=list(by_hour.values()))
    _add_totals(summary, by_hour)
    for hour, users in user_turns.count_users_by_hour():
        if hour in by_hour:
            by_hour[hour].users = users
    _add_percentiles(summary, user_turns, by_hour)
    counts = turns.aggregate(
        users=Count("user_id", distinct=True, filter=~Q(origin=Origin.SHADOW)),
        shadow_runs=Count("id", filter=Q(origin=Origin.SHADOW)),
    )
    summary.users, summary.shadow_runs = counts["users"], counts["shadow_runs"]
    judges = Expense.objects.filter(spent_at__gte=at).known_cost()
    summary.judges_micro_usd, summary.judges_unpriced = judges
    return summary


def _source() -> Source:
    """Return the turns of users, by hour and agent."""
    turns = Turn.objects.filter(started_at__gte=EARLIEST, started_at__lte=LATEST)
    totals = HourlyTotal.objects.filter(kind=TotalKind.TURN, is_shadow=False)
    columns = {"turns": "turns", "unpriced": "unpriced_turns"}
    return Source(
        turns.without_shadow_runs(),
        "started_at",
        {name: KEYS[name] for name in ("hour", "agent")},
        AGGREGATES,
        totals,
        {"hour": HourBucket("hour_id"), "agent": F("agent")},
        {name: sum_of(columns.get(name, name)) for name in AGGREGATES},
    )


def _iterate_hours(at: datetime, now: datetime) -> Iterator[datetime]:
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour <= now:
        yield hour
        hour += HOUR


def _add_totals(summary: ActivitySummary, by_hour: Mapping[str, HourStats]) -> None:
    by_agent: dict[str, AgentStats] = {}
    period = period_sums.split(summary.since, LATEST)
    for hour, agent, *sums in period_sums.read_groups(_source(), period):
        totals = TurnTotals(**dict(zip(AGGREGATES, sums, strict=True)))
        agent_stats = by_agent.setdefault(agent, AgentStats(agent=agent))
        # A clock that was ahead may have stored a future hour.
        for stats in filter(None, (summary, agent_stats, by_hour.get(hour))):
            stats.add(totals)
    summary.agents = sorted(
        by_agent.values(), key=lambda each: (-each.turns, each.agent)
    )


def _add_percentiles(
    summary: ActivitySummary, turns: TurnQuerySet, by_hour: Mapping[str, HourStats]
) -> None:
    durations_by_agent: dict[str, list[float]] = defaultdict(list)
    durations_by_hour: dict[str, list[float]] = defaultdict(list)
    for hour, agent, seconds in turns.durations_by("hour", "agent"):
        durations_by_agent[agent] += seconds
        durations_by_hour[hour] += seconds
    for stats in summary.agents:
        stats.set_percentiles(durations_by_agent[stats.agent])
    for hour, hour_stats in by_hour.items():
        hour_stats.set_percentiles(durations_by_hour[hour])
    summary.set_percentiles(chain.from_iterable(durations_by_agent.values()))


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile; None for an empty sequence."""
    if not ordered:
        return None
    return ordered[math.ceil(len(ordered) * share) - 1]
