"""Statistics of the last hours: turns, users, tokens, cost, errors, durations.

Covers turns of users and tasks; shadow runs are counted separately. All is read from
one index, without the texts of turns.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain

from django.db.models import Count, Q, QuerySet, Sum

from telemetry.models import Expense, Origin, Outcome, Turn
from telemetry.statistics.time_buckets import HourBucket, UnindexedColumn

HOUR = timedelta(hours=1)


@dataclass(slots=True)
class TurnStats:
    """Statistics of a set of turns."""

    turns: int = 0
    errors: int = 0
    cancelled: int = 0
    """The client disconnected."""
    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: int = 0
    """The known part."""
    unpriced: int = 0
    """Turns whose cost is not fully known."""

    @property
    def error_rate(self) -> float | None:
        """The share of failed turns; None without turns."""
        return self.errors / self.turns if self.turns else None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(slots=True)
class HourStats(TurnStats):
    """Statistics of one hour."""

    at: datetime = datetime.min
    """The beginning of the hour."""
    users: int = 0
    """Number of distinct users."""
    p50_seconds: float | None = None
    """Median duration of complete replies."""
    p95_seconds: float | None = None


@dataclass(slots=True)
class AgentStats(TurnStats):
    """Statistics of one agent."""

    agent: str = ""
    p50_seconds: float | None = None
    """Median duration of complete replies."""
    p95_seconds: float | None = None


@dataclass(slots=True)
class ActivitySummary(TurnStats):
    """Statistics of all turns, and by hour and agent."""

    since: datetime = datetime.min
    users: int = 0
    """Number of distinct users."""
    shadow_runs: int = 0
    """Shadow runs; in no other figure."""
    judges_micro_usd: int = 0
    """Additional cost of judges, as far as known."""
    judges_unpriced: int = 0
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    hours: list[HourStats] = field(default_factory=list)
    """Every hour in order."""
    agents: list[AgentStats] = field(default_factory=list)
    """The requested agents, busiest first."""


def summarize_since(at: datetime, now: datetime) -> ActivitySummary:
    """Return the statistics since then, in five queries.

    The first and the last hour may be partial.
    """
    turns = Turn.objects.filter(started_at__gte=at)
    user_turns = turns.exclude(origin=Origin.SHADOW)
    summary = ActivitySummary(since=at)
    summary.hours = [HourStats(at=hour) for hour in _iterate_hours(at, now)]
    by_hour = {f"{each.at:%Y-%m-%d %H}": each for each in summary.hours}
    _add_counts(summary, user_turns, by_hour)
    _count_users(user_turns, by_hour)
    _add_percentiles(summary, user_turns, by_hour)
    counts = turns.aggregate(
        users=Count("user_id", distinct=True, filter=~Q(origin=Origin.SHADOW)),
        shadow_runs=Count("id", filter=Q(origin=Origin.SHADOW)),
    )
    summary.users, summary.shadow_runs = counts["users"], counts["shadow_runs"]
    judges = Expense.objects.filter(spent_at__gte=at).aggregate(
        cost=Sum("cost_micro_usd"), unpriced=Count("id", filter=Q(cost_micro_usd=None))
    )
    summary.judges_micro_usd = int(judges["cost"] or 0)
    summary.judges_unpriced = judges["unpriced"]
    return summary


def _iterate_hours(at: datetime, now: datetime) -> Iterator[datetime]:
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour <= now:
        yield hour
        hour += HOUR


AGGREGATES = {
    "count": Count("id"),
    "unpriced": Count("id", filter=Q(cost_micro_usd=None)),
    "input_sum": Sum("input_tokens"),
    "output_sum": Sum("output_tokens"),
    "known_sum": Sum("known_cost_micro_usd"),
}


def _add_counts(
    summary: ActivitySummary, turns: QuerySet[Turn], by_hour: Mapping[str, HourStats]
) -> None:
    """Sum by hour and agent."""
    by_agent: dict[str, AgentStats] = {}
    groups = turns.values(
        hour=HourBucket("started_at"),
        agent_name=UnindexedColumn("agent"),
        outcome_name=UnindexedColumn("outcome"),
    )
    rows = groups.annotate(**AGGREGATES).order_by()
    for hour, agent, outcome, *sums in rows.values_list(
        "hour", "agent_name", "outcome_name", *AGGREGATES
    ):
        agent_stats = by_agent.setdefault(agent, AgentStats(agent=agent))
        # A clock that was ahead may have stored a future hour.
        for stats in filter(None, (summary, agent_stats, by_hour.get(hour))):
            _add_row(stats, outcome, *map(int, (value or 0 for value in sums)))
    summary.agents = sorted(
        by_agent.values(), key=lambda each: (-each.turns, each.agent)
    )


def _add_row(
    stats: TurnStats,
    outcome: str,
    count: int,
    unpriced: int,
    input_sum: int,
    output_sum: int,
    known_sum: int,
) -> None:
    stats.turns += count
    stats.errors += count if outcome == Outcome.ERROR else 0
    stats.cancelled += count if outcome == Outcome.CANCELLED else 0
    stats.unpriced += unpriced
    stats.input_tokens += input_sum
    stats.output_tokens += output_sum
    stats.micro_usd += known_sum


def _count_users(turns: QuerySet[Turn], by_hour: Mapping[str, HourStats]) -> None:
    groups = turns.values(hour=HourBucket("started_at")).order_by()
    for row in groups.annotate(users=Count("user_id", distinct=True)):
        if row["hour"] in by_hour:
            by_hour[row["hour"]].users = row["users"]


def _add_percentiles(
    summary: ActivitySummary, turns: QuerySet[Turn], by_hour: Mapping[str, HourStats]
) -> None:
    """Compute the durations of complete replies, without those of errors."""
    durations_by_agent: dict[str, list[float]] = defaultdict(list)
    durations_by_hour: dict[str, list[float]] = defaultdict(list)
    complete = turns.filter(outcome=Outcome.OK).annotate(hour=HourBucket("started_at"))
    for hour, agent, seconds in complete.values_list("hour", "agent", "seconds"):
        durations_by_agent[agent].append(seconds)
        durations_by_hour[hour].append(seconds)
    for stats in summary.agents:
        durations = durations_by_agent[stats.agent]
        stats.p50_seconds, stats.p95_seconds = _percentiles(durations)
    for hour, hour_stats in by_hour.items():
        durations = durations_by_hour[hour]
        hour_stats.p50_seconds, hour_stats.p95_seconds = _percentiles(durations)
    all_durations = chain.from_iterable(durations_by_agent.values())
    summary.p50_seconds, summary.p95_seconds = _percentiles(all_durations)


def _percentiles(seconds: Iterable[float]) -> tuple[float | None, float | None]:
    ordered = sorted(seconds)
    return percentile(ordered, 0.5), percentile(ordered, 0.95)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile; None for an empty sequence."""
    if not ordered:
        return None
    return ordered[math.ceil(len(ordered) * share) - 1]
