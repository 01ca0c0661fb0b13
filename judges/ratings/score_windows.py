"""Recent scores of judges: means over a day, a week and a month, per day, and pages."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Sum, Value

from judges.models import Score
from judges.ratings import scores
from judges.ratings.scores import Cursor
from telemetry.statistics.time_buckets import DayBucket, UnindexedColumn

WINDOWS: Mapping[str, timedelta] = {
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST_WINDOW = "30d"


@dataclass(frozen=True, slots=True)
class ScoreWindow:
    """The scores of a period."""

    count: int
    total: int

    @property
    def mean(self) -> float | None:
        """The mean; None without scores."""
        return self.total / self.count if self.count else None

    def __add__(self, other: "ScoreWindow") -> "ScoreWindow":
        return ScoreWindow(self.count + other.count, self.total + other.total)


EMPTY_WINDOW = ScoreWindow(0, 0)


@dataclass(frozen=True, slots=True)
class AgentScores:
    """A judge's scores of one agent by one criterion, by window name."""

    criterion: str
    agent: str
    windows: Mapping[str, ScoreWindow]


@dataclass(frozen=True, slots=True)
class DailyScores:
    """A judge's scores of one day (UTC) by one criterion."""

    day: str
    criterion: str
    scores: ScoreWindow


@dataclass(frozen=True, slots=True)
class ScoreMonth:
    """A judge's scores of the last month; days and agents without any are left out."""

    by_agent: Sequence[AgentScores]
    """By criterion, then agent."""
    by_day: Sequence[DailyScores]
    """By day, then criterion."""

    @property
    def by_criterion(self) -> dict[str, Mapping[str, ScoreWindow]]:
        """The windows of all agents together."""
        totals: dict[str, dict[str, ScoreWindow]] = {}
        for each in self.by_agent:
            sums = totals.setdefault(
                each.criterion, dict.fromkeys(WINDOWS, EMPTY_WINDOW)
            )
            for name, window in each.windows.items():
                sums[name] += window
        return {**totals}


def load_month(judge: str, now: datetime) -> ScoreMonth:
    """Return a judge's recent scores, with one index-only query per window."""
    days: dict[tuple[str, str], ScoreWindow] = defaultdict(lambda: EMPTY_WINDOW)
    agents: dict[tuple[str, str], dict[str, ScoreWindow]] = {}
    for day, criterion, agent, *sums in _query_sums(
        judge, now, LONGEST_WINDOW, DayBucket("judged_at")
    ):
        window = ScoreWindow(*sums)
        days[day, criterion] += window
        windows = agents.setdefault(
            (criterion, agent), dict.fromkeys(WINDOWS, EMPTY_WINDOW)
        )
        windows[LONGEST_WINDOW] += window
    for name in WINDOWS.keys() - {LONGEST_WINDOW}:
        for _, criterion, agent, *sums in _query_sums(judge, now, name, Value("")):
            # `setdefault`, because a score may be stored after the month was read.
            windows = agents.setdefault(
                (criterion, agent), dict.fromkeys(WINDOWS, EMPTY_WINDOW)
            )
            windows[name] = ScoreWindow(*sums)
    return ScoreMonth(
        [AgentScores(*key, windows) for key, windows in sorted(agents.items())],
        [DailyScores(*key, window) for key, window in sorted(days.items())],
    )


def _query_sums(judge: str, now: datetime, window: str, day: Any) -> Any:
    since = now - WINDOWS[window]
    rows = (
        Score.objects.filter(judge=judge, judged_at__gte=since)
        # As expressions; otherwise SQLite reads all rows in index order.
        .values(
            day=day,
            criterion_name=UnindexedColumn("criterion"),
            agent_name=UnindexedColumn("agent"),
        )
        .annotate(count=Count("value"), total=Sum("value"))
        .order_by()
    )
    return rows.values_list("day", "criterion_name", "agent_name", "count", "total")


def mean_scores(
    judges: Collection[str], since: datetime
) -> dict[str, tuple[int, float]]:
    """Return the count and mean of judges' scores since then, in one query."""
    rows = (
        Score.objects.filter(judge__in=judges, judged_at__gte=since)
        .values("judge")
        .annotate(count=Count("value"), mean=Avg("value"))
        .order_by()
    )
    return {row["judge"]: (row["count"], row["mean"]) for row in rows}


def page_judge_scores(
    judge: str,
    *,
    criterion: str | None = None,
    agent: str | None = None,
    max_score: int | None = None,
    after: Cursor | None = None,
    limit: int = 50,
) -> tuple[list[Score], bool]:
    """Return a page of a judge's scores, newest first, and whether there are more.

    `max_score` is the highest score to include.
    """
    filters = {"criterion": criterion, "agent": agent, "value__lte": max_score}
    rows = Score.objects.filter(
        judge=judge,
        **{name: value for name, value in filters.items() if value is not None},
    )
    return scores.page_scores(rows, after=after, limit=limit)
