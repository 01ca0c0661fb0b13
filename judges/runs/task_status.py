"""State of a judge's tasks, and retries of failed ones."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet

from judges.runs import judge_queue, run_results
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.statistics.time_buckets import UnindexedColumn

SKIPPED = '"skipped"'
"""Part of the receipt of a task that had nothing to judge."""
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
    tasks = Task.objects.filter(
        origin=judge_queue.task_origin(judge), created_at__gte=since
    )
    is_skipped = ExpressionWrapper(
        Q(state=Task.State.DONE, result__contains=SKIPPED), BooleanField()
    )
    rows = tasks.values_list("state", is_skipped).annotate(Count("pk")).order_by()
    by_state = {state: count for state, skipped, count in rows if not skipped}
    counts = JudgingCounts(
        queued=by_state.get(Task.State.QUEUED, 0),
        running=by_state.get(Task.State.RUNNING, 0),
        done=by_state.get(Task.State.DONE, 0),
        failed=by_state.get(Task.State.ERRORED, 0),
        cancelled=by_state.get(Task.State.CANCELLED, 0),
    )
    if any(skipped for _, skipped, _ in rows):
        counts.skipped = _skip_reasons(tasks)
    return counts


def _skip_reasons(tasks: QuerySet[Task]) -> dict[str, int]:
    """Return the number of skipped tasks, by reason."""
    skipped = tasks.filter(state=Task.State.DONE, result__contains=SKIPPED)
    reasons = (run_results.read_result(task).skipped for task in skipped.only("result"))
    return dict(Counter(reason or "unknown" for reason in reasons))


def failed_tasks(judge: str, limit: int) -> list[Task]:
    """Return a judge's failed tasks, newest first."""
    failed = _failed_tasks([judge])
    rows = failed.defer("prompt", "payload", "result").order_by("-created_at", "id")
    return list(rows[:limit])


def _failed_tasks(judges: Collection[str]) -> QuerySet[Task]:
    """Return the failed tasks of judges, by the index of failed tasks."""
    tasks = Task.objects.alias(
        has_failed=lifecycle.HAS_FAILED, source=UnindexedColumn("origin")
    )
    return tasks.filter(
        has_failed=True,
        state=Task.State.ERRORED,
        source__in=[judge_queue.task_origin(name) for name in judges],
    )


def count_failed(judges: Collection[str], since: datetime) -> dict[str, int]:
    """Return the number of failed tasks by judge since then, in one query."""
    rows = (
        _failed_tasks(judges)
        .filter(created_at__gte=since)
        .order_by()
        .values_list("origin")
        .annotate(Count("pk"))
    )
    return {judge_queue.judge_of_origin(origin): count for origin, count in rows}


def retry_failed(judge: str) -> int:
    """Requeue a judge's newest failed tasks; return how many."""
    return lifecycle.requeue([task.pk for task in failed_tasks(judge, MAX_RETRIED)])
