"""Scores of judges."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Avg, Count, F, Max, Min, Q, Sum, Value

from config import retention
from database.repeated_queries import EARLIEST, LATEST, run_for_each
from judges.ratings.statistics import ScoreStats, VariantScoreQuery
from judges.scoring.verdict_parser import JudgeResult
from telemetry.models.choices import Origin, choice_constraint
from telemetry.statistics.time_buckets import UnindexedColumn

WINDOWS: Mapping[str, timedelta] = {
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST_WINDOW = "30d"
SUM_EXPRESSIONS: dict[str, Any] = {
    "count": Count("value"),
    "total": Sum("value"),
    "sum_of_squares": Sum(F("value") * F("value")),
}


class RatingQuerySet(models.QuerySet[Any]):
    """Scores or feedback."""

    def filter_given(self, **conditions: Any) -> Self:
        """Filter by those conditions that are not None."""
        given = {name: value for name, value in conditions.items() if value is not None}
        return self.filter(**given)


class ScoreQuerySet(RatingQuerySet):
    """Scores, and their statistics, which are answered from indexes."""

    def expired(self, now: datetime) -> Self:
        """Return the scores past `retention.scores_days`, oldest first."""
        return retention.older_rows(self, "scores_days", "judged_at", now)

    def store(self, results: Mapping[str, JudgeResult], **reply: Any) -> None:
        """Store a judge's scores of a reply, by criterion; replaces its earlier ones.

        `reply` has the fields that they share: the turn, the user, the judge.
        """
        now = datetime.now(UTC)
        rows = [
            Score(
                **reply,
                criterion=criterion,
                value=result.score,
                reasoning=result.reasoning,
                judged_at=now,
            )
            for criterion, result in results.items()
        ]
        self.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["turn_id", "judge", "criterion"],
            update_fields=["value", "reasoning", "judged_at"],
        )

    def newest_first(self) -> Self:
        """Return the scores in the order of lists."""
        return self.order_by("-judged_at", "-id")

    def of_turns(self, turn_ids: Iterable[uuid.UUID]) -> Self:
        """Return the scores of turns, by turn, judge and criterion."""
        scores = self.filter(turn_id__in=list(turn_ids))
        return scores.order_by("turn_id", "judge", "criterion")

    def judged_turn_ids(
        self, judge: str, turn_ids: Collection[uuid.UUID]
    ) -> set[uuid.UUID]:
        scores = self.filter(judge=judge, turn_id__in=turn_ids)
        return set(scores.values_list("turn_id", flat=True))

    def means(self) -> list[dict[str, Any]]:
        """Return the mean of each judge and criterion, by their names."""
        rows = self.order_by("judge", "criterion").values("judge", "criterion")
        return list(rows.annotate(mean=Avg("value"), count=Count("id")))

    def means_by_judge(self) -> dict[str, dict[str, Any]]:
        """Return the `count` and `mean` of each judge's scores."""
        rows = self.order_by().values("judge")
        means = rows.annotate(count=Count("value"), mean=Avg("value"))
        return {row.pop("judge"): row for row in means}

    def stats_by_agent(self) -> dict[str, ScoreStats]:
        """Return the statistics of each agent that has scores."""
        # SQLite would take the index of an agent, and read the rows.
        rows = self.order_by().values(name=UnindexedColumn("agent"))
        summed = rows.annotate(**SUM_EXPRESSIONS)
        return {row["name"]: _row_stats(row) for row in summed}

    def stats_by_variant(
        self, queries: Sequence[VariantScoreQuery]
    ) -> dict[str, dict[str, ScoreStats]]:
        """Return the scores of experiments' variants, by experiment and agent."""
        stats: dict[str, dict[str, ScoreStats]] = {q.experiment: {} for q in queries}
        if not queries:
            return stats
        condition = Q()
        for query in queries:
            one = Q(
                experiment=query.experiment,
                judge=query.judge,
                criterion=query.criterion,
            )
            since = Q() if query.since is None else Q(judged_at__gte=query.since)
            condition |= one & since
        # Repeated for all of them together, so that the index is used.
        scores = self.filter(
            condition,
            judge__in={query.judge for query in queries},
            criterion__in={query.criterion for query in queries},
            agent__in={agent for query in queries for agent in query.agents},
            experiment__in=[query.experiment for query in queries],
        )
        rows = scores.order_by().values("experiment", "agent")
        for row in rows.annotate(**SUM_EXPRESSIONS):
            stats[row["experiment"]][row["agent"]] = _row_stats(row)
        return stats

    def summarize(self) -> list[dict[str, Any]]:
        """Return the statistics by agent, judge and criterion."""
        names = ("agent", "judge", "criterion")
        rows = self.order_by(*names).values(*names)
        bounds = {"lowest": Min("value"), "highest": Max("value")}
        summaries = []
        for row in rows.annotate(**SUM_EXPRESSIONS, **bounds):
            stats = _row_stats(row)
            summaries.append(
                {
                    **{name: row[name] for name in (*names, "count")},
                    "mean": stats.mean,
                    "standard_deviation": stats.standard_deviation,
                    **{name: row[name] for name in bounds},
                }
            )
        return summaries

    def month(self, now: datetime) -> dict[str, list[dict[str, Any]]]:
        """Return the means of the last day, week and month, and of each day (UTC).

        `means` are by criterion, `by_agent` also by agent, `days` by day and criterion.
        """
        sums: dict[tuple[str, str | None], dict[str, WindowSums]] = defaultdict(
            lambda: {name: WindowSums() for name in WINDOWS}
        )
        days: dict[tuple[str, str], WindowSums] = defaultdict(WindowSums)
        for start, criterion, agent, *row in self._sums_by_period(now):
            days[f"{start:%Y-%m-%d}", criterion].add(*row)
            for window, span in WINDOWS.items():
                if start >= now - span:
                    sums[criterion, agent][window].add(*row)
                    sums[criterion, None][window].add(*row)
        by_agent = sorted((key, found) for key, found in sums.items() if key[1])
        means = sorted((key[0], found) for key, found in sums.items() if not key[1])
        return {
            "means": [
                {"criterion": criterion, "windows": _serialize(windows)}
                for criterion, windows in means
            ],
            "by_agent": [
                {"agent": agent, "criterion": criterion, "windows": _serialize(windows)}
                for (criterion, agent), windows in by_agent
            ],
            "days": [
                {"day": date, "criterion": criterion, **found.serialize()}
                for (date, criterion), found in sorted(days.items())
            ],
        }

    def _sums_by_period(self, now: datetime) -> Iterator[tuple[Any, ...]]:
        """Yield start, criterion, agent, number and sum of the scores of each period.

        Periods end at midnights (UTC) and at the beginnings of windows. The scores of
        each are a range of an index, because for groups SQLite would sort all of them:
        of 600,000 scores, a tenth of the time.
        """
        midnight = datetime.combine(now.astimezone(UTC), time.min, UTC)
        month = WINDOWS[LONGEST_WINDOW]
        edges = {now - span for span in WINDOWS.values()}
        edges |= {midnight - timedelta(days=number) for number in range(month.days)}
        starts = sorted(edges)
        columns = ("criterion", "agent", "experiment")
        groups = self.order_by().values_list(*columns).distinct()
        periods = (
            (
                (start, criterion, agent),
                {
                    "{criterion}": criterion,
                    "{agent}": agent,
                    "{experiment}": experiment,
                    EARLIEST: start,
                    LATEST: end,
                },
            )
            for criterion, agent, experiment in groups
            for start, end in zip(starts, [*starts[1:], LATEST], strict=True)
        )
        chosen = self.filter(
            **{name: f"{{{name}}}" for name in columns},
            judged_at__gte=EARLIEST,
            judged_at__lt=LATEST,
        )
        rows = chosen.order_by().values(all=Value(1))
        sums = rows.annotate(count=Count("value"), total=Sum("value"))
        for key, row in run_for_each(sums.values_list("count", "total"), periods):
            if row[0]:
                yield *key, *row


def _row_stats(row: Mapping[str, Any]) -> ScoreStats:
    return ScoreStats(*(row[name] for name in SUM_EXPRESSIONS))


class WindowSums:
    """The number and the sum of the scores of a window."""

    count = total = 0

    def add(self, count: int, total: int) -> None:
        self.count += count
        self.total += total

    def serialize(self) -> dict[str, Any]:
        mean = self.total / self.count if self.count else None
        return {"mean": mean, "count": self.count}


def _serialize(windows: Mapping[str, WindowSums]) -> dict[str, Any]:
    return {name: window.serialize() for name, window in windows.items()}


class Score(models.Model):
    """One judge's score of one reply by one criterion."""

    turn_id = models.UUIDField()
    """The turn of the reply; a shadow run has its own turn id."""
    user_id = models.UUIDField()
    """The user of the turn; the score is erased with them."""
    judge = models.CharField(max_length=255)
    criterion = models.CharField(max_length=64)
    value = models.PositiveSmallIntegerField()
    """From 0 to 10."""
    reasoning = models.TextField(blank=True, default="")
    agent = models.CharField(max_length=255)
    """The agent that replied; for an experiment, the variant."""
    experiment = models.CharField(max_length=255, blank=True, default="")
    """The experiment that selected the agent; "" if none."""
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.CHAT)
    judged_at = models.DateTimeField()

    objects = ScoreQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["turn_id", "judge", "criterion"], name="judges_score_of_turn"
            ),
            models.CheckConstraint(
                condition=Q(value__gte=0, value__lte=10), name="judges_score_value"
            ),
            choice_constraint(Origin, "origin", "judges_score_origin"),
        ]
        indexes = [
            # Covering index for means, for any combination of its fields.
            models.Index(
                fields=[
                    "judge",
                    "criterion",
                    "agent",
                    "experiment",
                    "judged_at",
                    "value",
                ],
                name="judges_score_means",
            ),
            models.Index(fields=["-judged_at", "-id"], name="judges_score_newest"),
            models.Index(
                fields=["user_id", "-judged_at", "-id"], name="judges_score_of_user"
            ),
            # The filters of the studio's list, in its order.
            models.Index(
                fields=["agent", "-judged_at", "-id"], name="judges_score_of_agent"
            ),
            models.Index(
                fields=["experiment", "-judged_at", "-id"],
                name="judges_score_of_variants",
            ),
            # A judge's recent scores, also for lists.
            models.Index(
                fields=["judge", "judged_at", "id", "criterion", "agent", "value"],
                name="judges_score_recent",
            ),
            # A user's means; with `users: shared`, one user has all scores.
            models.Index(
                fields=["user_id", "judge", "criterion", "value"],
                name="judges_score_user_means",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.judge}.{self.criterion}: {self.value} for {self.agent}"
