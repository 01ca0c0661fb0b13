"""Questions about many tasks, and changes of many tasks."""

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import models, transaction
from django.db.models import Case, Count, F, Q, Value, When
from django.db.models.expressions import RawSQL

from config import live
from core.ids import UserId
from core.runtime import request_ids, shared_clock, trace_context
from database import keyset
from tasks.config import TASKS
from tasks.errors import TaskUnknown
from tasks.models import claiming, rounds
from tasks.models.claiming import LEASE_SECONDS, MAX_INTERRUPTIONS
from tasks.queue import publisher, task_kinds, worker_identity
from tasks.queue.task_kinds import EXTRACTION
from tasks.queue.task_spec import TaskSpec
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from telemetry.models import Turn

if TYPE_CHECKING:
    from tasks.models.task import Task

INTERRUPTED = "process restarted before task completed"
"""Source: "Boot-time reaping" of the reference."""
MAX_COUNTED = 10_000
APPEND_INTERVAL_SECONDS = 0.5
"""Turns that are stored within this time share a permit."""


class TaskState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERRORED = "errored"
    CANCELLED = "cancelled"


OPEN = (TaskState.QUEUED, TaskState.RUNNING)
CLOSED = (TaskState.DONE, TaskState.ERRORED, TaskState.CANCELLED)
FAILED = (TaskState.ERRORED, TaskState.CANCELLED)

IS_OPEN = RawSQL(
    "state IN ('queued', 'running')", (), output_field=models.BooleanField()
)
"""The condition of the indexes `tasks_task_open…`: SQLite uses a partial index only for
the same words, and otherwise scans all tasks.
"""
IS_QUEUED = RawSQL("state = 'queued'", (), output_field=models.BooleanField())
IS_RUNNING = RawSQL("state = 'running'", (), output_field=models.BooleanField())
HAS_FAILED = RawSQL(
    "state IN ('errored', 'cancelled')", (), output_field=models.BooleanField()
)
"""The condition of the indexes `tasks_task_failed…`: only a few tasks fail."""

IS_EXTRACTION = RawSQL("kind = 'extraction'", (), output_field=models.BooleanField())
IS_NO_EXTRACTION = RawSQL(
    "NOT (kind = 'extraction')", (), output_field=models.BooleanField()
)
"""The conditions of the indexes for lists."""
IS_TRIGGERED = RawSQL(
    "SUBSTR(origin, 1, 8) = 'trigger:'", (), output_field=models.BooleanField()
)
"""The condition of the index of the runs of triggers."""


class TaskQuerySet(models.QuerySet["Task"]):
    """Tasks. Changes that make some due publish permits for them, on commit."""

    # Questions.

    def of_user(self, user_id: UserId) -> "TaskQuerySet":
        """Return the tasks that a user owns."""
        return self.filter(user_id=user_id)

    def open(self) -> "TaskQuerySet":
        """Return the queued and running tasks."""
        return self.filter(IS_OPEN)

    def running(self) -> "TaskQuerySet":
        return self.filter(IS_RUNNING)

    def failed(self) -> "TaskQuerySet":
        """Return the errored and cancelled tasks."""
        return self.filter(HAS_FAILED)

    def errored(self) -> "TaskQuerySet":
        return self.failed().filter(state=TaskState.ERRORED)

    def in_states(self, states: Collection[str]) -> "TaskQuerySet":
        """Return the tasks in any of these states, by the index for them."""
        rows = self.filter(state__in=states)
        if set(states) <= set(FAILED):
            return rows.failed()
        return rows.running() if set(states) == {TaskState.RUNNING} else rows

    def extractions(self) -> "TaskQuerySet":
        """Return the tasks that extract facts from stored turns."""
        return self.filter(IS_EXTRACTION)

    def without_extractions(self) -> "TaskQuerySet":
        return self.filter(IS_NO_EXTRACTION)

    def of_kind(self, kind: str | None) -> "TaskQuerySet":
        """Return the tasks of a kind; without one, all but extractions."""
        if kind == EXTRACTION:
            return self.extractions()
        tasks = self.without_extractions()
        return tasks.filter(kind=kind) if kind else tasks

    def listed(self) -> "TaskQuerySet":
        """Return the tasks of the kinds that users and agents see."""
        return self.without_extractions().filter(kind__in=task_kinds.listed_names())

    def visible_to(self, user_id: UserId) -> "TaskQuerySet":
        return self.listed().of_user(user_id)

    def of_origin(self, *origins: str) -> "TaskQuerySet":
        """Return the tasks that these created; extractions have no origin."""
        return self.without_extractions().filter(origin__in=origins)

    def triggered(self) -> "TaskQuerySet":
        return self.filter(IS_TRIGGERED)

    def newest_first(self) -> "TaskQuerySet":
        """Return the tasks in the order of lists."""
        return self.order_by("-created_at", "-id")

    def page(
        self, limit: int, after: tuple[datetime, uuid.UUID] | None = None
    ) -> "tuple[list[Task], bool]":
        """Return the newest tasks, with costs, and whether there are more.

        `after` is the `created_at` and the id of the last task of the previous page.
        """
        rows = self.filter(keyset.later_rows("created_at", after)).newest_first()
        found = list(rows[: limit + 1])
        return self.load_costs(found[:limit]), len(found) > limit

    def get_with_cost(self, task_id: uuid.UUID) -> "Task":
        """Return a task with its cost; raises `TaskUnknown`."""
        for task in self.load_costs(self.filter(pk=task_id)):
            return task
        raise TaskUnknown

    def load_costs(self, tasks: "Iterable[Task]") -> "list[Task]":
        """Return tasks with their newest recorded turns and costs, in one query."""
        rows = list(tasks)
        listed = task_kinds.listed_names()
        with_turns = [row for row in rows if row.kind in listed]
        ids = [turn_id for row in with_turns for turn_id in row.turn_ids]
        turns = Turn.objects.filter(pk__in=ids) if ids else Turn.objects.none()
        costs = dict(turns.values_list("pk", "cost_micro_usd"))
        for row in with_turns:
            row.set_cost(costs)
        return rows

    def count_by_kind_and_state(self) -> list[tuple[str, str, int]]:
        rows = self.order_by("kind", "state").values_list("kind", "state")
        return list(rows.annotate(count=Count("*")))

    def count_open(
        self, now: datetime
    ) -> list[tuple[str, int, int, int, datetime | None]]:
        """Return for each kind: tasks that are due, delayed and running, and since when
        the first one is due. Of a long queue `MAX_COUNTED` are counted."""
        rows = self.running().order_by("kind").values_list("kind")
        running = dict(rows.annotate(count=Count("*")))
        found = []
        for kind in task_kinds.names():
            queued = self.filter(IS_QUEUED, kind=kind).order_by("due_at")
            # Only what the index has.
            times = queued.values_list("due_at", flat=True)
            due, delayed = times.filter(due_at__lte=now), times.filter(due_at__gt=now)
            first = due.first()
            counts = (rows[:MAX_COUNTED].count() for rows in (due, delayed))
            found.append((kind, *counts, running.get(kind, 0), first))
        return found

    def oldest_due(self, now: datetime) -> datetime | None:
        """Return since when the first task is due, of all kinds; None without one."""
        due = self.filter(IS_QUEUED, due_at__lte=now).order_by("due_at")
        times = due.values_list("due_at", flat=True)
        firsts = [times.filter(kind=kind).first() for kind in task_kinds.names()]
        return min(filter(None, firsts), default=None)

    def count_errored(self) -> list[tuple[str, int]]:
        """Return the tasks of each kind that failed for good."""
        rows = self.errored().order_by("kind").values_list("kind")
        return list(rows.annotate(count=Count("*")))

    def count_errors(self, limit: int = 10) -> list[tuple[str, str, int]]:
        """Return the most frequent errors: kind, error and count."""
        rows = self.errored().values_list("kind", "error")
        counted = rows.annotate(count=Count("*"))
        return list(counted.order_by("-count", "kind")[:limit])

    def expired(self, now: datetime) -> "TaskQuerySet":
        """Return the tasks that ended more than `keep_days` ago, oldest first.

        Their idempotency keys become free with them.
        """
        keep_days = live.current().get(TASKS).keep_days
        if keep_days is None:
            return self.none()
        ended = self.filter(finished_at__lt=now - timedelta(days=keep_days))
        return ended.order_by("finished_at")

    # The queue.

    def enqueue(
        self, specs: Sequence[TaskSpec], *, now: datetime | None = None
    ) -> "list[Task]":
        """Add tasks to the queue, in the caller's transaction if there is one.

        Return the added rows, without those whose key exists already.
        """
        now = now or shared_clock.now()
        rows = [self._build(spec, now) for spec in specs]
        rounds.assign_rounds(rows, now)
        if not any(row.key for row in rows):
            added = self.bulk_create(rows)
        else:
            with transaction.atomic():
                self.bulk_create(rows, ignore_conflicts=True)
                stored = self.filter(pk__in=[row.pk for row in rows])
                ids = set(stored.values_list("pk", flat=True))
            added = [row for row in rows if row.pk in ids]
        _publish(added, now)
        return added

    def _build(self, spec: TaskSpec, now: datetime) -> "Task":
        return self.model(
            id=spec.id,
            kind=spec.kind,
            user_id=spec.user_id,
            agent=spec.agent,
            prompt=spec.prompt,
            payload=dict(spec.payload),
            origin=spec.origin,
            turn_id=spec.turn_id,
            token_id=spec.token_id,
            request_id=request_ids.current.get(),
            traceparent=trace_context.current_traceparent(),
            key=spec.key,
            priority=spec.priority,
            max_failures=spec.max_failures,
            created_at=now,
            due_at=now + timedelta(seconds=spec.delay_seconds),
        )

    def append(self, spec: TaskSpec, *, now: datetime) -> None:
        """Add a task of an ordered kind, in the caller's transaction.

        Only its kind, user, agent, payload, turn and failures count.
        """
        claiming.insert(spec, now)
        notify = partial(
            publisher.notify, spec.kind, interval_seconds=APPEND_INTERVAL_SECONDS
        )
        transaction.on_commit(notify)

    def due_kinds(self, kinds: Sequence[str], now: datetime) -> list[str]:
        """Return the kinds of which a worker could claim a task."""
        return claiming.due_kinds(kinds, now)

    def delayed_until(
        self, kinds: Sequence[str], now: datetime, until: datetime
    ) -> "TaskQuerySet":
        """Return the tasks of these kinds that are due after now and until a time."""
        delayed = self.filter(IS_QUEUED, kind__in=kinds)
        return delayed.filter(due_at__gt=now, due_at__lte=until).order_by(
            "kind", "due_at"
        )

    def claim(
        self,
        kind: str,
        *,
        users: Collection[UserId] | None = None,
        reruns: bool = True,
        now: datetime | None = None,
    ) -> "Task | None":
        """Claim the next due task of a kind, and return it.

        Ordered by priority, then by round, then by age; with `users` only theirs. Of an
        ordered kind only the first open task of each user is claimed. With `reruns`,
        tasks whose lease expired are claimed again. Two workers never claim one task.
        """
        now = now or shared_clock.now()
        if task_kinds.is_ordered(kind):
            return claiming.claim_in_order(self, kind, reruns=reruns, now=now)
        return claiming.claim_next(self, kind, users=users, reruns=reruns, now=now)

    def cancel(self) -> int:
        """Cancel open tasks: queued ones at once, running ones soon.

        Return how many, without those whose cancellation was requested before.
        """
        is_queued = Q(state=TaskState.QUEUED)
        # In one statement, because a worker may release a task meanwhile.
        cancelled = self.filter(state__in=OPEN, is_cancelled=False).update(
            is_cancelled=True,
            state=Case(
                When(is_queued, then=Value(TaskState.CANCELLED)), default=F("state")
            ),
            finished_at=Case(When(is_queued, then=Value(shared_clock.now()))),
        )
        ACTIVE_TURNS.mark_tasks_changed()
        return cancelled

    def requeue(self, states: Sequence[str] = FAILED) -> int:
        """Requeue tasks in these states; return how many.

        A judge's receipt in the result stays, because its calls were paid.
        """
        now = shared_clock.now()
        with transaction.atomic():
            ended = self.select_for_update().filter(state__in=states)
            rows = list(
                ended.only("user_id", "kind", "priority", "due_at").order_by(
                    "created_at", "round"
                )
            )
            for row in rows:
                row.due_at = now
            rounds.assign_rounds(rows, now)
            tasks = self.model.objects.filter(pk__in=[row.pk for row in rows])
            tasks.bulk_update(rows, ["round"], batch_size=100)
            tasks.update(
                state=TaskState.QUEUED,
                is_cancelled=False,
                failures=0,
                interruptions=0,
                error="",
                due_at=now,
                started_at=None,
                finished_at=None,
            )
            _publish(rows, now)
        return len(rows)

    # Leases.

    def extend_leases(
        self, tasks: "Collection[Task]", *, now: datetime | None = None
    ) -> None:
        """Extend this process's leases of running tasks."""
        lease = (now or shared_clock.now()) + timedelta(seconds=LEASE_SECONDS)
        rows = self.filter(pk__in=[task.pk for task in tasks], state=TaskState.RUNNING)
        rows.filter(worker=worker_identity.own_name()).update(due_at=lease)

    def stopped_ids(self, tasks: "Collection[Task]") -> set[uuid.UUID]:
        """Return the ids of running attempts that must stop; writes nothing.

        Their tasks are cancelled, erased, or claimed by another worker.
        """
        attempts = {task.pk: task.attempts for task in tasks}
        rows = self.filter(pk__in=attempts, state=TaskState.RUNNING, is_cancelled=False)
        return attempts.keys() - {
            pk
            for pk, attempt in rows.values_list("pk", "attempts")
            if attempts[pk] == attempt
        }

    def expire_dead_leases(self, *, now: datetime | None = None) -> int:
        """Expire the leases of dead workers of this machine; return how many.

        Leases of other machines expire by time.
        """
        others = self.running().exclude(worker=worker_identity.own_name())
        names = others.values_list("worker", flat=True).distinct()
        ended = worker_identity.ended_workers(names)
        if not ended:
            return 0
        return others.filter(worker__in=ended).update(due_at=now or shared_clock.now())

    def close_abandoned(
        self, *, once: Collection[str] = (), now: datetime | None = None
    ) -> int:
        """Close the tasks whose workers died; return how many.

        Tasks that may run again stay claimable; kinds that run `once` do not.
        """
        now = now or shared_clock.now()
        expired = self.running().filter(due_at__lte=now)
        cancelled = expired.filter(is_cancelled=True).update(
            state=TaskState.CANCELLED, finished_at=now
        )
        is_lost = Q(interruptions__gte=MAX_INTERRUPTIONS) | Q(kind__in=once)
        errored = expired.filter(is_lost).update(
            state=TaskState.ERRORED, error=INTERRUPTED, finished_at=now
        )
        return cancelled + errored


def _publish(tasks: "Iterable[Task]", now: datetime) -> None:
    """Publish a permit for each kind on commit, when its first task is due."""
    delays: dict[str, float] = {}
    for task in tasks:
        delay = (task.due_at - now).total_seconds()
        delays[task.kind] = min(delay, delays.get(task.kind, delay))
    for kind, delay in delays.items():
        transaction.on_commit(partial(publisher.notify, kind, delay))
