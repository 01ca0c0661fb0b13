"""What judges gave of late: means over a day, a week, a month, by day, in rows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Q, Sum

from judges.models import Score
from telemetry.spans import Day, Plain

WINDOWS: Mapping[str, timedelta] = {
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST = "30d"

Place = tuple[datetime, int]
"""Where a page of scores ends: when it was given, and its id."""


@dataclass(frozen=True, slots=True)
class Window:
    """The scores of some time."""

    count: int
    total: int

    @property
    def mean(self) -> float | None:
        """Their mean; None where there are none."""
        return self.total / self.count if self.count else None

    def __add__(self, other: "Window") -> "Window":
        return Window(self.count + other.count, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Given:
    """What a judge gave one agent by one criterion, by the windows' names."""

    criterion: str
    agent: str
    windows: Mapping[str, Window]


@dataclass(frozen=True, slots=True)
class OfDay:
    """What a judge gave on one day (UTC) by one criterion."""

    day: str
    criterion: str
    scores: Window


def by_agent(judge: str, now: datetime) -> list[Given]:
    """Return what a judge gave in the last month, by criterion and agent.

    One query, of an index alone.
    """
    sums: dict[str, Any] = {}
    for name, span in WINDOWS.items():
        within = Q(judged_at__gte=now - span)
        sums[f"count_{name}"] = Count("value", filter=within)
        sums[f"total_{name}"] = Sum("value", filter=within)
    rows = (
        _of(judge, now)
        # As expressions: SQLite else reads all there ever was in their order.
        .values(what=Plain("criterion"), whose=Plain("agent"))
        .annotate(**sums)
        .order_by("what", "whose")
    )
    return [
        Given(
            *(row["what"], row["whose"]),
            {
                name: Window(row[f"count_{name}"], row[f"total_{name}"] or 0)
                for name in WINDOWS
            },
        )
        for row in rows
    ]


def by_criterion(given: Collection[Given]) -> dict[str, Mapping[str, Window]]:
    """Return the same for all agents together."""
    found: dict[str, dict[str, Window]] = {}
    for each in given:
        sums = found.setdefault(each.criterion, dict.fromkeys(WINDOWS, Window(0, 0)))
        for name, window in each.windows.items():
            sums[name] += window
    return {**found}


def by_day(judge: str, now: datetime) -> list[OfDay]:
    """Return what a judge gave in the last month by day; days without are left out."""
    rows = (
        _of(judge, now)
        .values(day=Day("judged_at"), what=Plain("criterion"))
        .annotate(count=Count("value"), total=Sum("value"))
        .order_by("day", "what")
    )
    return [
        OfDay(row["day"], row["what"], Window(row["count"], row["total"]))
        for row in rows
    ]


def _of(judge: str, now: datetime) -> Any:
    since = now - WINDOWS[LONGEST]
    return Score.objects.filter(judge=judge, judged_at__gte=since)


def means(judges: Collection[str], since: datetime) -> dict[str, tuple[int, float]]:
    """Return how many scores judges gave since then, and their mean; in one query."""
    rows = (
        Score.objects.filter(judge__in=judges, judged_at__gte=since)
        .values("judge")
        .annotate(count=Count("value"), mean=Avg("value"))
        .order_by()
    )
    return {row["judge"]: (row["count"], row["mean"]) for row in rows}


def page(
    judge: str,
    *,
    criterion: str | None = None,
    agent: str | None = None,
    most: int | None = None,
    after: Place | None = None,
    limit: int = 50,
) -> tuple[list[Score], bool]:
    """Return a judge's scores, the newest first, and whether there are more.

    `most` leaves out those that are higher.
    """
    rows = Score.objects.filter(judge=judge)
    wanted = {"criterion": criterion, "agent": agent, "value__lte": most}
    rows = rows.filter(**{n: value for n, value in wanted.items() if value is not None})
    if after is not None:
        at, last_id = after
        earlier = Q(judged_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, judged_at__lte=at)
    found = list(rows.order_by("-judged_at", "-id")[: limit + 1])
    return found[:limit], len(found) > limit
