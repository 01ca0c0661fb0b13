"""The tasks of judges in the queue: each scores one reply."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar

import orjson
from django.db.models import BooleanField, Count, ExpressionWrapper, Q
from pydantic import BaseModel, Field

from core.ids import TurnId
from judges.runs import judge_queue
from tasks.models import Task, TaskQuerySet
from telemetry.statistics.time_buckets import UnindexedColumn

IS_SKIPPED = Q(state=Task.State.DONE, result__contains='"skipped"')
"""The receipt of a task that had nothing to judge says why."""
MAX_RETRIED = 1_000
"""Maximum tasks that are requeued at once."""
MAX_FAILURES_SHOWN = 5
"""Maximum failures listed per judge, newest first."""


class JudgingCounts(BaseModel):
    """The tasks of one judge, by state."""

    queued: int = 0
    running: int = 0
    done: int = Field(0, description="Replies that were scored.")
    failed: int = 0
    cancelled: int = 0
    skipped: dict[str, int] = Field({}, description="By reason.")
    selected: int = Field(0, description="The sum of all states.")


class JudgingTally(JudgingCounts):
    """The tasks of one judge, with what they cost."""

    judge: str
    calls: int = 0
    micro_usd: int = 0
    unpriced: int = 0
    """Tasks whose cost is unknown."""
    failures: list[Any] = []
    """The newest failed tasks."""


class JudgeTaskQuerySet(TaskQuerySet):
    # Django's types know a `TaskQuerySet` as one of `Task` only.
    def of_judges(self, judges: Iterable[str]) -> Any:
        return self.of_origin(*map(judge_queue.task_origin, judges))

    def of_replies(self, judge: str, turn_ids: Iterable[TurnId]) -> Any:
        keys = [judge_queue.task_key(judge, turn_id) for turn_id in turn_ids]
        return self.filter(key__in=keys)

    def failed_of(self, judges: Iterable[str]) -> Any:
        """Return the failed tasks of judges, by the index of failed tasks."""
        origins = [judge_queue.task_origin(name) for name in judges]
        tasks = self.errored().alias(source=UnindexedColumn("origin"))
        return tasks.filter(source__in=origins).order_by("-created_at", "id")

    def retry_newest(self) -> int:
        """Requeue the newest of these tasks; return how many."""
        ids = list(self.values_list("pk", flat=True)[:MAX_RETRIED])
        return self.model.objects.filter(pk__in=ids).requeue()

    def count_by_judge(self) -> dict[str, JudgingCounts]:
        """Return the number of tasks by judge; reads receipts of skipped ones only."""
        by_judge: dict[str, JudgingCounts] = defaultdict(JudgingCounts)
        is_skipped = ExpressionWrapper(IS_SKIPPED, BooleanField())
        rows = self.order_by().values_list("origin", "state", is_skipped)
        has_skipped = False
        for origin, state, skipped, count in rows.annotate(Count("pk")):
            counts = by_judge[judge_queue.judge_of_origin(origin)]
            counts.selected += count
            has_skipped |= skipped
            if not skipped:
                name = "failed" if state == Task.State.ERRORED else state
                setattr(counts, name, count)
        skipped_tasks: Any = self.filter(IS_SKIPPED) if has_skipped else self.none()
        for task in skipped_tasks.only("origin", "result"):
            reasons = by_judge[task.judge].skipped
            reason = task.receipt.get("skipped") or "unknown"
            reasons[reason] = reasons.get(reason, 0) + 1
        return by_judge

    def tally(self) -> list[JudgingTally]:
        """Return the tasks by judge name, with their costs, from all receipts."""
        tallies = {
            name: JudgingTally(judge=name, **counts.model_dump())
            for name, counts in sorted(self.count_by_judge().items())
        }
        tasks: Any = self.only("origin", "result").iterator()
        for task in tasks:
            if (tally := tallies.get(task.judge)) is not None:
                cost = task.receipt.get("cost_micro_usd", 0)
                tally.calls += task.receipt.get("calls", 0)
                tally.micro_usd += cost or 0
                tally.unpriced += cost is None
        for name, tally in tallies.items():
            if tally.failed:
                failed = self.failed_of([name]).defer("prompt", "payload", "result")
                tally.failures = list(failed[:MAX_FAILURES_SHOWN])
        return list(tallies.values())


class JudgeTask(Task):
    """A task in which one judge scores one reply."""

    objects: ClassVar[Any] = JudgeTaskQuerySet.as_manager()

    class Meta:
        proxy = True
        default_permissions = ()

    @property
    def judge(self) -> str:
        return judge_queue.judge_of_origin(self.origin)

    @property
    def receipt(self) -> dict[str, Any]:
        """What was stored of it: `calls`, `usage`, `cost_micro_usd` (null if unknown),
        `scores`, and `skipped`, the reason if there was nothing to judge."""
        try:
            return dict(orjson.loads(self.result))
        except orjson.JSONDecodeError:
            return {}
