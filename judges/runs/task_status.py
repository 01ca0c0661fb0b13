"""State of a judge's tasks, and retries of failed ones."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet

from judges.runs import judge_queue, run_results
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.statistics.time_buckets import UnindexedColumn

SKIPPED = '"skipped"'
"""Part of a receipt whose task had nothing to judge."""
MAX_RETRIED = 1_000
"""Maximum tasks that are requeued at once."""


@dataclass(slots=True)
class JudgingCounts:
    """The tasks of one judge in a period."""

    queued: int = 0
    running: int = 0
    done: int = 0
    """Judged."""
    failed: int = 0
    cancelled: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Counts by reason."""

    @property
    def total(self) -> int:
        """The number of replies that the judge sampled."""
        ended = self.done + self.failed + self.cancelled + sum(self.skipped.values())
        return self.queued + self.running + ended


def count_tasks(judge: str, since: datetime) -> JudgingCounts:
    """Return the state of a judge's tasks since then."""
    found = Task.objects.filter(
        origin=judge_queue.task_origin(judge), created_at__gte=since
    )
    is_skipped = ExpressionWrapper(
        Q(state=Task.State.DONE, result__contains=SKIPPED), BooleanField()
    )
    rows = found.values_list("state", is_skipped).annotate(Count("pk")).order_by()
    by_state = {state: count for state, skipped, count in rows if not skipped}
    told = JudgingCounts(
        queued=by_state.get(Task.State.QUEUED, 0),
        running=by_state.get(Task.State.RUNNING, 0),
        done=by_state.get(Task.State.DONE, 0),
        failed=by_state.get(Task.State.ERRORED, 0),
        cancelled=by_state.get(Task.State.CANCELLED, 0),
    )
    if any(skipped for _, skipped, _ in rows):
        told.skipped = _skip_reasons(found)
    return told


def _skip_reasons(found: QuerySet[Task]) -> dict[str, int]:
    """Return why tasks had nothing to judge, with counts."""
    skipped = found.filter(state=Task.State.DONE, result__contains=SKIPPED)
    whys = (run_results.read_result(task).skipped for task in skipped.only("result"))
    return dict(Counter(why or "unknown" for why in whys))


def failed_tasks(judge: str, limit: int) -> list[Task]:
    """Return a judge's failed tasks, newest first."""
    found = Task.objects.alias(
        has_failed=lifecycle.HAS_FAILED, whose=UnindexedColumn("origin")
    )
    mine = found.filter(
        has_failed=True, state=Task.State.ERRORED, whose=judge_queue.task_origin(judge)
    )
    rows = mine.defer("prompt", "payload", "result").order_by("-created_at", "id")
    return list(rows[:limit])


def count_failed(judges: Collection[str], since: datetime) -> dict[str, int]:
    """Return the number of failed tasks by judge since then, in one query."""
    found = Task.objects.alias(
        has_failed=lifecycle.HAS_FAILED, whose=UnindexedColumn("origin")
    )
    rows = (
        found.filter(
            has_failed=True,
            state=Task.State.ERRORED,
            created_at__gte=since,
            whose__in=[judge_queue.task_origin(name) for name in judges],
        )
        .order_by()
        .values_list("origin")
        .annotate(Count("pk"))
    )
    return {judge_queue.judge_of_origin(origin): count for origin, count in rows}


def retry_failed(judge: str) -> int:
    """Requeue a judge's newest failed tasks; return how many."""
    rows: Sequence[Task] = failed_tasks(judge, MAX_RETRIED)
    return lifecycle.requeue([row.pk for row in rows])
