"""Storage of judges' scores, and their means."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from core.ids import UserId
from judges.models import Score
from judges.scoring.verdict_parser import JudgeResult

Cursor = tuple[datetime, int]
"""Position of a page of scores: creation time and id of the last one."""


@dataclass(frozen=True, slots=True)
class ScoreStats:
    """Count, sum, and sum of squares of scores."""

    count: int
    total: float
    sum_of_squares: float

    @property
    def mean(self) -> float:
        """The mean; 0 without scores."""
        return self.total / self.count if self.count else 0.0

    @property
    def variance(self) -> float:
        """The sample variance; 0 with fewer than two scores."""
        if self.count < 2:
            return 0.0
        # Whole numbers from 0 to 10, so the difference is exact.
        deviation = self.sum_of_squares - self.total * self.total / self.count
        return max(deviation, 0.0) / (self.count - 1)

    def __add__(self, other: "ScoreStats") -> "ScoreStats":
        return ScoreStats(
            self.count + other.count,
            self.total + other.total,
            self.sum_of_squares + other.sum_of_squares,
        )


NO_SCORES = ScoreStats(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Scores of one agent by one judge and criterion."""

    agent: str
    judge: str
    criterion: str
    stats: ScoreStats
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """A reply that was judged."""

    turn_id: UUID
    user_id: UserId
    judge: str
    agent: str
    experiment: str = ""
    origin: str = "chat"


def store_scores(reply: JudgedReply, results: Mapping[str, JudgeResult]) -> None:
    """Store a judge's scores of a reply; replaces its earlier ones."""
    now = datetime.now(UTC)
    rows = [
        Score(
            turn_id=reply.turn_id,
            user_id=reply.user_id,
            judge=reply.judge,
            criterion=criterion,
            value=result.score,
            reasoning=result.reasoning,
            agent=reply.agent,
            experiment=reply.experiment,
            origin=reply.origin,
            judged_at=now,
        )
        for criterion, result in results.items()
    ]
    Score.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["turn_id", "judge", "criterion"],
        update_fields=["value", "reasoning", "judged_at"],
    )


SUM_EXPRESSIONS: dict[str, Any] = {
    "count": Count("value"),
    "total": Sum("value"),
    "sum_of_squares": Sum(F("value") * F("value")),
}


def stats_by_agent(
    judge: str,
    criterion: str,
    agents: Collection[str],
    *,
    since: datetime | None = None,
    experiment: str | None = None,
) -> dict[str, ScoreStats]:
    """Return a judge's scores of agents by one criterion, by agent name.

    Agents without scores are left out. With `experiment`, only their replies as its
    variants. One query, answered from an index.
    """
    scores = Score.objects.filter(judge=judge, criterion=criterion, agent__in=agents)
    if since is not None:
        scores = scores.filter(judged_at__gte=since)
    if experiment is not None:
        scores = scores.filter(experiment=experiment)
    rows = scores.values("agent").annotate(**SUM_EXPRESSIONS).order_by()
    return {row["agent"]: _row_stats(row) for row in rows}


@dataclass(frozen=True, slots=True)
class VariantScoreQuery:
    """The experiment and metric whose scores are requested."""

    experiment: str
    judge: str
    criterion: str
    agents: Collection[str]
    since: datetime | None = None


def variant_stats(
    queries: Sequence[VariantScoreQuery],
) -> dict[str, dict[str, ScoreStats]]:
    """Return the scores of experiments' variants, by experiment and agent.

    One query for all experiments, answered from an index.
    """
    if not queries:
        return {}
    condition = Q()
    for query in queries:
        one = Q(
            experiment=query.experiment, judge=query.judge, criterion=query.criterion
        )
        condition |= one if query.since is None else one & Q(judged_at__gte=query.since)
    rows = (
        # Repeated for all of them together, so that the index is used.
        Score.objects.filter(
            condition,
            judge__in={query.judge for query in queries},
            criterion__in={query.criterion for query in queries},
            agent__in={agent for query in queries for agent in query.agents},
            experiment__in=[query.experiment for query in queries],
        )
        .values("experiment", "agent")
        .order_by()
        .annotate(**SUM_EXPRESSIONS)
    )
    stats: dict[str, dict[str, ScoreStats]] = {each.experiment: {} for each in queries}
    for row in rows:
        stats[row["experiment"]][row["agent"]] = _row_stats(row)
    return stats


def summarize_scores(
    *,
    judge: str | None = None,
    agent: str | None = None,
    experiment: str | None = None,
    user_id: UserId | None = None,
    since: datetime | None = None,
) -> list[ScoreSummary]:
    """Return scores by agent, judge and criterion."""
    filters = {
        "judge": judge,
        "agent": agent,
        "experiment": experiment,
        "user_id": user_id,
        "judged_at__gte": since,
    }
    rows = (
        Score.objects.filter(
            **{name: value for name, value in filters.items() if value is not None}
        )
        .values("agent", "judge", "criterion")
        .annotate(**SUM_EXPRESSIONS, lowest=Min("value"), highest=Max("value"))
        .order_by("agent", "judge", "criterion")
    )
    return [
        ScoreSummary(
            row["agent"],
            row["judge"],
            row["criterion"],
            _row_stats(row),
            row["lowest"],
            row["highest"],
        )
        for row in rows
    ]


def overall_stats_by_agent(since: datetime) -> dict[str, ScoreStats]:
    """Return the scores of all judges together, for each agent that has any."""
    stats: dict[str, ScoreStats] = {}
    for summary in summarize_scores(since=since):
        stats[summary.agent] = stats.get(summary.agent, NO_SCORES) + summary.stats
    return stats


def _row_stats(row: Mapping[str, Any]) -> ScoreStats:
    return ScoreStats(row["count"], row["total"], row["sum_of_squares"])


def scores_of_turns(turn_ids: Iterable[UUID]) -> list[Score]:
    """Return the scores of turns, by turn, judge and criterion."""
    scores = Score.objects.filter(turn_id__in=list(turn_ids))
    return list(scores.order_by("turn_id", "judge", "criterion"))


def recent_scores(user_id: UserId, limit: int) -> list[Score]:
    """Return a user's newest scores, the newest first."""
    return list(scores_of_user(user_id).order_by("-judged_at", "-id")[:limit])


def scores_of_user(user_id: UserId) -> QuerySet[Score]:
    """Return all scores of a user's replies."""
    return Score.objects.filter(user_id=user_id)


def judged_turn_ids(judge: str, turn_ids: Collection[UUID]) -> set[UUID]:
    """Return which of these turns a judge has scored."""
    scores = Score.objects.filter(judge=judge, turn_id__in=turn_ids)
    return set(scores.values_list("turn_id", flat=True))


def page_scores(
    rows: QuerySet[Score], *, after: Cursor | None, limit: int
) -> tuple[list[Score], bool]:
    """Return a page of scores, newest first, and whether there are more."""
    if after is not None:
        at, last_id = after
        earlier = Q(judged_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, judged_at__lte=at)
    found = list(rows.order_by("-judged_at", "-id")[: limit + 1])
    return found[:limit], len(found) > limit
