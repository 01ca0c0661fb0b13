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


@dataclass(frozen=True, slots=True)
class ScoreStats:
    """Count, sum, and sum of squares of scores."""

    count: int
    total: float
    squares: float

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
        spread = self.squares - self.total * self.total / self.count
        return max(spread, 0.0) / (self.count - 1)

    def __add__(self, other: "ScoreStats") -> "ScoreStats":
        return ScoreStats(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
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


def store_scores(judged: JudgedReply, verdicts: Mapping[str, JudgeResult]) -> None:
    """Store a judge's scores of a reply; replaces its earlier ones."""
    now = datetime.now(UTC)
    rows = [
        Score(
            turn_id=judged.turn_id,
            user_id=judged.user_id,
            judge=judged.judge,
            criterion=criterion,
            value=verdict.score,
            reasoning=verdict.reasoning,
            agent=judged.agent,
            experiment=judged.experiment,
            origin=judged.origin,
            judged_at=now,
        )
        for criterion, verdict in verdicts.items()
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
    "squares": Sum(F("value") * F("value")),
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
    found = Score.objects.filter(judge=judge, criterion=criterion, agent__in=agents)
    if since is not None:
        found = found.filter(judged_at__gte=since)
    if experiment is not None:
        found = found.filter(experiment=experiment)
    rows = found.values("agent").annotate(**SUM_EXPRESSIONS).order_by()
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
    trials: Sequence[VariantScoreQuery],
) -> dict[str, dict[str, ScoreStats]]:
    """Return the scores of experiments' variants, by experiment and agent.

    One query for all experiments, answered from an index.
    """
    if not trials:
        return {}
    counted = Q()
    for trial in trials:
        ours = Q(experiment=trial.experiment)
        ours &= Q(judge=trial.judge, criterion=trial.criterion)
        counted |= ours if trial.since is None else ours & Q(judged_at__gte=trial.since)
    rows = (
        # Repeated for all of them together, so that the index is used.
        Score.objects.filter(
            counted,
            judge__in={trial.judge for trial in trials},
            criterion__in={trial.criterion for trial in trials},
            agent__in={agent for trial in trials for agent in trial.agents},
            experiment__in=[trial.experiment for trial in trials],
        )
        .values("experiment", "agent")
        .order_by()
        .annotate(**SUM_EXPRESSIONS)
    )
    found: dict[str, dict[str, ScoreStats]] = {trial.experiment: {} for trial in trials}
    for row in rows:
        found[row["experiment"]][row["agent"]] = _row_stats(row)
    return found


def summarize_scores(
    *,
    judge: str | None = None,
    agent: str | None = None,
    experiment: str | None = None,
    user_id: UserId | None = None,
    since: datetime | None = None,
) -> list[ScoreSummary]:
    """Return scores by agent, judge and criterion."""
    given = {
        *(("judge", judge), ("agent", agent), ("experiment", experiment)),
        *(("user_id", user_id), ("judged_at__gte", since)),
    }
    wanted = {name: value for name, value in given if value is not None}
    rows = (
        Score.objects.filter(**wanted)
        .values("agent", "judge", "criterion")
        .annotate(**SUM_EXPRESSIONS, lowest=Min("value"), highest=Max("value"))
        .order_by("agent", "judge", "criterion")
    )
    return [
        ScoreSummary(
            *(row["agent"], row["judge"], row["criterion"]),
            *(_row_stats(row), row["lowest"], row["highest"]),
        )
        for row in rows
    ]


def overall_stats_by_agent(since: datetime) -> dict[str, ScoreStats]:
    """Return the scores of all judges together, for each agent that has any."""
    found: dict[str, ScoreStats] = {}
    for line in summarize_scores(since=since):
        found[line.agent] = found.get(line.agent, NO_SCORES) + line.stats
    return found


def _row_stats(row: Mapping[str, Any]) -> ScoreStats:
    return ScoreStats(row["count"], row["total"], row["squares"])


def scores_of_turns(turn_ids: Iterable[UUID]) -> list[Score]:
    """Return the scores of turns, by turn, judge and criterion."""
    found = Score.objects.filter(turn_id__in=list(turn_ids))
    return list(found.order_by("turn_id", "judge", "criterion"))


def recent_scores(user_id: UserId, limit: int) -> list[Score]:
    """Return a user's newest scores, the newest first."""
    return list(scores_of_user(user_id).order_by("-judged_at", "-id")[:limit])


def scores_of_user(user_id: UserId) -> QuerySet[Score]:
    """Return all scores of a user's replies."""
    return Score.objects.filter(user_id=user_id)


def judged_turn_ids(judge: str, turn_ids: Collection[UUID]) -> set[UUID]:
    """Return which of these turns a judge has scored."""
    found = Score.objects.filter(judge=judge, turn_id__in=turn_ids)
    return set(found.values_list("turn_id", flat=True))
