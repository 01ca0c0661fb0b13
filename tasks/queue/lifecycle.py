"""Life cycle of queue rows: added, claimed under a lease, completed.

The row is the only source of truth about a task; notifying a worker only saves time. A
worker owns a claimed row until its lease expires, and extends the lease while it works.
Claiming increments the attempt number, and completion requires that number, so a worker
that lost its lease can write nothing.
"""

import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL

from core.errors import CoulisseError
from core.ids import UserId
from core.runtime import request_ids
from core.text import redaction
from database.errors import TurnDiscarded
from tasks.models import Task
from tasks.queue import fair_scheduling, worker_identity
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.column_values import to_column
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from telemetry.storage.stored_text import make_storable

LEASE_SECONDS = 30.0
"""Lease duration. Workers extend their leases every ten seconds."""
MAX_INTERRUPTIONS = 3
"""A task that loses its worker this often is errored."""
MIN_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 600.0
MAX_ERROR_LENGTH = 2_000
INTERRUPTED = "process restarted before task completed"
"""Source: "Boot-time reaping" of the reference."""

OPEN = (Task.State.QUEUED, Task.State.RUNNING)
CLOSED = (Task.State.DONE, Task.State.ERRORED, Task.State.CANCELLED)
FAILED = (Task.State.ERRORED, Task.State.CANCELLED)

IS_OPEN = RawSQL(
    "state IN ('queued', 'running')", (), output_field=models.BooleanField()
)
"""The condition of the indexes `tasks_task_open…`: SQLite uses a partial index only for
the same words, and otherwise scans all tasks.
"""

HAS_FAILED = RawSQL(
    "state IN ('errored', 'cancelled')", (), output_field=models.BooleanField()
)
"""The condition of the indexes `tasks_task_failed…`: only a few tasks fail."""

COMPLETE_SQL = """
    UPDATE tasks_task SET
        state = 'done', result = %s, error = '', finished_at = %s,
        turn_id = COALESCE(%s, turn_id)
    WHERE id = %s AND user_id = %s AND state = 'running' AND attempts = %s
"""
"""Plain SQL, because it runs for every task."""


class LeaseLost(TurnDiscarded):
    """This worker lost the task: it was erased, or another worker claimed it."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task to enqueue."""

    kind: str
    user_id: UserId
    agent: str
    prompt: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    turn_id: uuid.UUID | None = None
    token_id: uuid.UUID | None = None
    key: str | None = None
    """Idempotency key: a task is not added if one has this key."""
    priority: int = 0
    max_failures: int = 1
    delay_seconds: float = 0.0
    """Delay before it may be claimed."""
    id: uuid.UUID = field(default_factory=uuid.uuid4)


def enqueue(specs: Sequence[TaskSpec], *, now: datetime | None = None) -> list[Task]:
    """Add tasks to the queue, in the caller's transaction if there is one.

    Return the added rows, without those whose key exists already. The caller notifies a
    worker after the commit.
    """
    now = now or datetime.now(UTC)
    rows = [_build_row(spec, now) for spec in specs]
    fair_scheduling.assign_rounds(rows, now)
    if not any(row.key for row in rows):
        return Task.objects.bulk_create(rows)
    with transaction.atomic():
        Task.objects.bulk_create(rows, ignore_conflicts=True)
        added = set(
            Task.objects.filter(pk__in=[row.pk for row in rows]).values_list(
                "pk", flat=True
            )
        )
    return [row for row in rows if row.pk in added]


def _build_row(spec: TaskSpec, now: datetime) -> Task:
    return Task(
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
        key=spec.key,
        priority=spec.priority,
        max_failures=spec.max_failures,
        created_at=now,
        due_at=now + timedelta(seconds=spec.delay_seconds),
    )


def _abandoned_condition(once: Collection[str]) -> Q:
    """Return the condition for tasks that may not run again after their worker died."""
    return Q(interruptions__gte=MAX_INTERRUPTIONS) | Q(kind__in=once)


def extend_leases(
    tasks: Collection[ClaimedTask], *, now: datetime | None = None
) -> None:
    """Extend the leases of running tasks."""
    lease = (now or datetime.now(UTC)) + timedelta(seconds=LEASE_SECONDS)
    ids = [task.id for task in tasks]
    running = Task.objects.filter(pk__in=ids, state=Task.State.RUNNING)
    running.filter(worker=worker_identity.own_name()).update(due_at=lease)


def cancelled_ids(tasks: Collection[ClaimedTask]) -> set[uuid.UUID]:
    """Return the ids of running tasks that must stop; writes nothing.

    These are cancelled, erased, or owned by another worker.
    """
    attempts = {task.id: task.attempts for task in tasks}
    running = Task.objects.filter(
        pk__in=attempts, state=Task.State.RUNNING, is_cancelled=False
    )
    return attempts.keys() - {
        pk
        for pk, attempt in running.values_list("pk", "attempts")
        if attempts[pk] == attempt
    }


def _leased_row(task: ClaimedTask) -> QuerySet[Task]:
    return Task.objects.filter(
        pk=task.id,
        user_id=task.user_id,
        state=Task.State.RUNNING,
        attempts=task.attempts,
    )


def _uncancelled_row(task: ClaimedTask) -> QuerySet[Task]:
    """Select a task that is not cancelled; `close_cancelled` then closes the others.

    In this order, no cancellation is missed.
    """
    return _leased_row(task).filter(is_cancelled=False)


def lock_leased(task: ClaimedTask) -> None:
    """Lock a task until the transaction ends; raises `LeaseLost`.

    The partial result of an interrupted attempt is written in the same transaction.
    """
    if not _leased_row(task).update(due_at=F("due_at")):
        raise LeaseLost


def complete(
    task: ClaimedTask, result: str = "", *, turn_id: uuid.UUID | None = None
) -> None:
    """Complete a task in the caller's transaction; raises `LeaseLost`.

    The transaction stores the result if and only if the row is done. A cancellation at
    the last moment has no effect.
    """
    values = [
        make_storable(result),
        to_column("finished_at", datetime.now(UTC)),
        to_column("turn_id", turn_id),
        to_column("id", task.id),
        to_column("user_id", task.user_id),
        task.attempts,
    ]
    with connection.cursor() as cursor:
        cursor.execute(COMPLETE_SQL, values)
        if not cursor.rowcount:
            raise LeaseLost


def complete_with(
    task: ClaimedTask, result: str = "", write: Callable[[], None] | None = None
) -> None:
    """Complete a task and write its result in one transaction; raises `LeaseLost`."""
    with transaction.atomic():
        # First, because a worker that lost the lease must write nothing.
        complete(task, result)
        if write is not None:
            write()


def record_failure(
    task: ClaimedTask, error: BaseException, *, is_final: bool = False
) -> bool:
    """Record a failed attempt; return whether the task is now errored.

    Otherwise it is retried after a backoff, unless it was cancelled. The stored text is
    visible to the user: the message of our own errors, only the type of others.
    """
    failures = task.failures + 1
    text = make_storable(describe_error(error))[:MAX_ERROR_LENGTH]
    is_errored = is_final or failures >= task.max_failures
    if is_errored:
        _uncancelled_row(task).update(
            state=Task.State.ERRORED,
            failures=failures,
            error=text,
            finished_at=datetime.now(UTC),
        )
    else:
        retry_after = getattr(error, "retry_after_seconds", None)
        pause = _backoff_seconds(failures, retry_after)
        now = datetime.now(UTC)
        _uncancelled_row(task).update(
            state=Task.State.QUEUED,
            failures=failures,
            error=text,
            due_at=now + timedelta(seconds=pause),
            round=fair_scheduling.round_when_waiting(task.user_id, task.priority, now),
        )
    close_cancelled(task)
    return is_errored


def describe_error(error: BaseException) -> str:
    """Return the text that a task stores of an error; users see its public part."""
    if isinstance(error, CoulisseError):
        return redaction.redact_all(str(error))
    return f"{type(error).__name__}: see the server's log"


def _backoff_seconds(failures: int, minimum: float | None = None) -> float:
    """Return the backoff after so many failures."""
    longest = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 4 ** (failures - 1))
    jitter = random.uniform(longest / 2, longest)  # noqa: S311  not for security
    return max(jitter, minimum or 0.0)


def release_leases(tasks: Collection[ClaimedTask]) -> None:
    """Release tasks that this process will not finish, so that another can restart
    them.
    """
    now = datetime.now(UTC)
    for task in tasks:
        # The next claim increments the number, so the old attempt can complete nothing.
        _uncancelled_row(task).update(state=Task.State.QUEUED, due_at=now)
        close_cancelled(task)


def count_open(user_id: UserId, kinds: Collection[str], limit: int) -> int:
    """Return the number of a user's open tasks of these kinds, at most `limit`."""
    rows = Task.objects.filter(IS_OPEN, user_id=user_id, kind__in=kinds)
    return rows[:limit].count()


def cancel(task_id: uuid.UUID, *, user_id: UserId | None = None) -> Task | None:
    """Cancel an open task: at once if it is queued, soon if it is running.

    Return its updated row; None if it does not exist or belongs to another user.
    """
    rows = Task.objects.filter(pk=task_id)
    if user_id is not None:
        rows = rows.filter(user_id=user_id)
    is_queued = Q(state=Task.State.QUEUED)
    # In one statement, because a worker may release the task meanwhile.
    rows.filter(state__in=OPEN).update(
        is_cancelled=True,
        state=Case(
            When(is_queued, then=Value(Task.State.CANCELLED)), default=F("state")
        ),
        finished_at=Case(When(is_queued, then=Value(datetime.now(UTC)))),
    )
    ACTIVE_TURNS.mark_tasks_changed()
    return rows.first()


def close_cancelled(task: ClaimedTask) -> None:
    """Close a task whose cancellation was requested, after it has stopped."""
    _leased_row(task).filter(is_cancelled=True).update(
        state=Task.State.CANCELLED, finished_at=datetime.now(UTC)
    )


def expire_dead_leases(*, now: datetime | None = None) -> int:
    """Expire the leases of dead workers of this machine; return how many.

    Leases of other machines expire by time.
    """
    running = Task.objects.filter(IS_OPEN, state=Task.State.RUNNING)
    names = running.exclude(worker=worker_identity.own_name()).values_list(
        "worker", flat=True
    )
    ended = worker_identity.ended_workers(names.distinct())
    if not ended:
        return 0
    return running.filter(worker__in=ended).update(due_at=now or datetime.now(UTC))


def close_abandoned(*, once: Collection[str] = (), now: datetime | None = None) -> int:
    """Close the tasks whose workers died; return how many.

    Tasks that may run again stay claimable; kinds that run `once` do not.
    """
    now = now or datetime.now(UTC)
    expired = Task.objects.filter(IS_OPEN, state=Task.State.RUNNING, due_at__lte=now)
    cancelled = expired.filter(is_cancelled=True).update(
        state=Task.State.CANCELLED, finished_at=now
    )
    errored = expired.filter(_abandoned_condition(once)).update(
        state=Task.State.ERRORED, error=INTERRUPTED, finished_at=now
    )
    return cancelled + errored


def requeue(ids: Collection[uuid.UUID]) -> int:
    """Requeue failed or cancelled tasks; return how many.

    A judge's receipt in the result stays, because its calls were paid.
    """
    now = datetime.now(UTC)
    with transaction.atomic():
        ended = Task.objects.select_for_update().filter(pk__in=ids, state__in=FAILED)
        rows = list(
            ended.only("user_id", "priority", "due_at").order_by("created_at", "round")
        )
        for row in rows:
            row.due_at = now
        fair_scheduling.assign_rounds(rows, now)
        Task.objects.bulk_update(rows, ["round"], batch_size=100)
        Task.objects.filter(pk__in=[row.pk for row in rows]).update(
            state=Task.State.QUEUED,
            is_cancelled=False,
            failures=0,
            interruptions=0,
            error="",
            due_at=now,
            started_at=None,
            finished_at=None,
        )
    return len(rows)
