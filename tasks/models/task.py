"""Tasks: each row is the only source of truth about one task.

A worker owns a claimed row until its lease expires, and extends the lease while it
works. Claiming increments the attempt number, and completion requires that number, so a
worker that lost its lease can write nothing.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from django.db import connection, models, transaction
from django.db.models import F, Func, Q, Value
from django.db.models.lookups import Exact

from core.ids import TurnId, UserId
from core.runtime import shared_clock, trace_context
from core.runtime.backoff import jittered_seconds
from tasks.errors import LeaseLost, TaskNotEnded, TaskNotRepeatable, describe_error
from tasks.models import rounds
from tasks.models.queryset import FAILED, OPEN, TaskQuerySet, TaskState
from tasks.queue import publisher, task_kinds
from tasks.queue.task_kinds import EXTRACTION
from tasks.queue.task_spec import TaskSpec
from telemetry.models.choices import choice_constraint
from telemetry.presentation.turn_serializers import to_usd
from telemetry.storage.stored_text import make_storable

MAX_BACKOFF_SECONDS = 600.0
MAX_ERROR_LENGTH = 2_000

COMPLETE_SQL = """
    UPDATE tasks_task SET
        state = 'done', result = %s, error = '', finished_at = %s, turn_id = %s
    WHERE id = %s AND user_id = %s AND state = 'running' AND attempts = %s
"""
"""Plain SQL, because it runs for every task: the ORM takes three times as long."""


class Task(models.Model):
    """A background task, from submission to its end."""

    State = TaskState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=16)
    """The kind of work: a name known to `task_kinds`."""
    user_id: "models.UUIDField[uuid.UUID, UserId]" = models.UUIDField()
    """The owner; the task is erased with them."""
    agent = models.CharField(max_length=255)
    """The agent or experiment, as the request named it."""
    prompt = models.TextField(blank=True, default="")
    """The agent's prompt."""
    payload = models.JSONField(default=dict)
    """Further input of its kind."""
    origin = models.CharField(max_length=300, blank=True, default="")
    """What created it: `api`, `turn:ID`, `trigger:NAME`, `smoke:NAME`."""
    turn_id = models.UUIDField(null=True)
    """The turn it is about, or the turn it ran."""
    token_id = models.UUIDField(null=True)
    """The API token it is charged to."""
    request_id = models.CharField(max_length=128, blank=True, default="")
    """The id of the request that created it."""
    traceparent = models.CharField(max_length=64, blank=True, default="")
    """The span that created it, as the header has it; "" without traces."""
    key = models.CharField(max_length=600, null=True)  # noqa: DJ001
    """Idempotency key, unique among all tasks; null may run again."""
    state = models.CharField(max_length=16, choices=TaskState, default=TaskState.QUEUED)
    priority = models.SmallIntegerField(default=0)
    """Higher values are claimed first."""
    round = models.BigIntegerField(default=0)
    """Within a priority the lowest round is claimed first
    (`tasks.models.rounds`), then the oldest task.
    """
    attempts = models.IntegerField(default=0)
    """How often it was claimed; the number of the current attempt identifies its lease.
    """
    failures = models.IntegerField(default=0)
    """Attempts that ended with an error."""
    interruptions = models.IntegerField(default=0)
    """Attempts whose worker died."""
    max_failures = models.IntegerField(default=1)
    """The task is errored after this many failures."""
    due_at = models.DateTimeField()
    """When it may be claimed: at once, after a backoff, or when its lease expires."""
    is_cancelled = models.BooleanField(default=False)
    """Whether its cancellation was requested while it ran."""
    worker = models.CharField(max_length=255, blank=True, default="")
    """The process that claimed it last: `HOST:PID:STARTED`."""
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.TextField(blank=True, default="")
    error = models.TextField(blank=True, default="")

    has_more: bool
    """Of a claimed task: whether another of its kind was due."""
    cost_micro_usd: int | None = None
    """Set by `load_costs`: the cost of all attempts, None if unknown."""

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            choice_constraint(TaskState, "state", "tasks_task_state"),
            # Without the many tasks that have none.
            models.UniqueConstraint(
                fields=["key"],
                condition=Q(key__isnull=False),
                name="tasks_task_key",
            ),
        ]
        # The order matters: of two indexes with equal cost, SQLite takes the newer.
        indexes = [
            models.Index(
                fields=["user_id", "kind", "-created_at", "-id"],
                name="tasks_task_of_user",
            ),
            models.Index(
                fields=["-created_at", "-id"],
                condition=~Q(kind=EXTRACTION),
                name="tasks_task_newest",
            ),
            models.Index(
                fields=["-created_at", "-id"],
                condition=Q(kind=EXTRACTION),
                name="tasks_task_extraction",
            ),
            models.Index(
                fields=["origin", "-created_at"],
                condition=~Q(kind=EXTRACTION),
                name="tasks_task_origin",
            ),
            models.Index(
                fields=["kind", "-priority", "round", "created_at", "due_at"],
                condition=Q(state__in=["queued", "running"]),
                name="tasks_task_open",
            ),
            models.Index(
                fields=["user_id", "kind", "priority", "round", "created_at"],
                condition=Q(state__in=["queued", "running"]),
                name="tasks_task_open_of_user",
            ),
            models.Index(
                fields=["-created_at", "-id"],
                condition=Q(state__in=["errored", "cancelled"]),
                name="tasks_task_failed",
            ),
            models.Index(
                fields=["due_at"],
                condition=Q(state="running"),
                name="tasks_task_running",
            ),
            models.Index(
                fields=["user_id", "kind", "due_at"],
                condition=Q(state="running"),
                name="tasks_task_running_of_user",
            ),
            models.Index(
                fields=["kind", "due_at"],
                condition=Q(state="queued"),
                name="tasks_task_due",
            ),
            # Indexes of the studio's lists. None begins with the kind: SQLite would
            # otherwise search for waiting tasks among all tasks ever stored.
            models.Index(
                fields=["agent", "-created_at", "-id"],
                condition=~Q(kind=EXTRACTION),
                name="tasks_task_of_agent",
            ),
            models.Index(
                fields=["-created_at", "-id"],
                condition=Q(
                    Exact(
                        Func(
                            "origin",
                            Value(1),
                            Value(8),
                            function="SUBSTR",
                            output_field=models.CharField(),
                        ),
                        Value("trigger:"),
                    )
                ),
                name="tasks_task_triggered",
            ),
            models.Index(
                fields=["-finished_at"],
                condition=Q(finished_at__isnull=False),
                name="tasks_task_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} of {self.agent}"

    @property
    def is_open(self) -> bool:
        """Whether it is queued or running."""
        return self.state in OPEN

    @property
    def retries(self) -> int:
        """How many failures are retried."""
        return self.max_failures - 1

    @property
    def metadata(self) -> dict[str, str] | None:
        return self.payload.get("metadata") or None

    @property
    def is_repeatable(self) -> bool:
        """Whether `retry` runs it again."""
        kind = task_kinds.get(self.kind)
        return self.state in FAILED or (
            self.state == TaskState.DONE and kind is not None and kind.is_listed
        )

    @property
    def turn_ids(self) -> list[TurnId]:
        """The ids that the turns of its attempts have, in order."""
        numbers = range(1, self.attempts + 1)
        return [TurnId(uuid.uuid5(self.id, str(number))) for number in numbers]

    def set_cost(self, costs: Mapping[uuid.UUID, int | None]) -> None:
        """Set its newest turn and its cost, for display, from the recorded turns."""
        recorded = [turn_id for turn_id in self.turn_ids if turn_id in costs]
        if not recorded:
            return
        self.turn_id = recorded[-1]
        known = [cost for each in recorded if (cost := costs[each]) is not None]
        self.cost_micro_usd = sum(known) if len(known) == len(recorded) else None

    @property
    def cost_usd(self) -> float | None:
        """Its cost, after `load_costs`; None if unknown."""
        return to_usd(self.cost_micro_usd)

    # Changes by users and operators.

    def cancel(self) -> bool:
        """Cancel it if it is open; return whether that is new."""
        return bool(Task.objects.filter(pk=self.pk).cancel())

    def retry(self) -> "Task":
        """Run it again: requeue it if it failed, or add a copy if it is done.

        Return the task that runs. Raises `TaskNotEnded` and `TaskNotRepeatable`.
        """
        with transaction.atomic():
            current = Task.objects.select_for_update().get(pk=self.pk)
            if current.state in OPEN:
                raise TaskNotEnded
            if current.state in FAILED:
                Task.objects.filter(pk=self.pk).requeue()
                return current
            if not current.is_repeatable:
                raise TaskNotRepeatable
            (added,) = Task.objects.enqueue([current.as_spec()])
            return added

    def as_spec(self) -> TaskSpec:
        """Return the request of this task, for a new one."""
        return TaskSpec(
            self.kind,
            self.user_id,
            self.agent,
            self.prompt,
            payload=self.payload,
            origin=self.origin,
            token_id=self.token_id,
            priority=self.priority,
            max_failures=self.max_failures,
        )

    # Changes by the worker that claimed it. None has an effect without its lease.

    def complete(
        self,
        result: str = "",
        write: Callable[[], None] | None = None,
        *,
        turn_id: uuid.UUID | None = None,
    ) -> None:
        """Complete it, and write its result in one transaction; raises `LeaseLost`.

        The transaction stores the result if and only if the row is done. A cancellation
        at the last moment has no effect.
        """
        if write is not None:
            with transaction.atomic():
                # First, because a worker that lost the lease must write nothing.
                self.complete(result, turn_id=turn_id)
                write()
            return
        values = [
            make_storable(result),
            connection.ops.adapt_datetimefield_value(shared_clock.now()),
            *map(rounds.to_column, (turn_id or self.turn_id, self.pk, self.user_id)),
            self.attempts,
        ]
        with connection.cursor() as cursor:
            cursor.execute(COMPLETE_SQL, values)
            if not cursor.rowcount:
                raise LeaseLost

    def fail(
        self, error: BaseException, *, is_final: bool = False, result: str = ""
    ) -> bool:
        """Record a failed attempt; return whether the task is now errored.

        Otherwise it is retried after a backoff, unless it was cancelled. Users see the
        stored text: the message of our own errors, only the type of others. `result` is
        stored with a final failure.
        """
        trace_context.note_failure(error)
        now, failures = shared_clock.now(), self.failures + 1
        text = make_storable(describe_error(error))[:MAX_ERROR_LENGTH]
        is_errored = is_final or failures >= self.max_failures
        if is_errored:
            self._uncancelled().update(
                state=TaskState.ERRORED,
                failures=failures,
                error=text,
                result=result or self.result,
                finished_at=now,
            )
        else:
            retry_after = getattr(error, "retry_after_seconds", None)
            pause = _backoff_seconds(self.kind, failures, retry_after)
            self._uncancelled().update(
                state=TaskState.QUEUED,
                failures=failures,
                error=text,
                due_at=now + timedelta(seconds=pause),
                round=rounds.round_when_waiting(self, now),
            )
            self._publish(pause)
        self.close_cancelled()
        return is_errored

    def release(self, *, delay_seconds: float = 0.0) -> None:
        """Requeue it, because this worker will not finish it."""
        due_at = shared_clock.now() + timedelta(seconds=delay_seconds)
        # The next claim increments the number, so this attempt can complete nothing.
        self._uncancelled().update(state=TaskState.QUEUED, due_at=due_at)
        self.close_cancelled()
        self._publish(delay_seconds)

    def close_cancelled(self) -> None:
        """Close it if its cancellation was requested, after it has stopped."""
        self._leased().filter(is_cancelled=True).update(
            state=TaskState.CANCELLED, finished_at=shared_clock.now()
        )

    def lock_lease(self) -> None:
        """Lock its row until the transaction ends; raises `LeaseLost`.

        The partial result of an interrupted attempt is written in the same transaction.
        """
        if not self._leased().update(due_at=F("due_at")):
            raise LeaseLost

    def _publish(self, delay_seconds: float = 0.0) -> None:
        transaction.on_commit(partial(publisher.notify, self.kind, delay_seconds))

    def _leased(self) -> TaskQuerySet:
        """Select its row while this attempt owns it."""
        return Task.objects.filter(
            pk=self.pk,
            user_id=self.user_id,
            state=TaskState.RUNNING,
            attempts=self.attempts,
        )

    def _uncancelled(self) -> TaskQuerySet:
        """Select its row if it is not cancelled; `close_cancelled` then closes the
        others.

        In this order, no cancellation is missed.
        """
        return self._leased().filter(is_cancelled=False)


def _backoff_seconds(kind: str, failures: int, minimum: float | None) -> float:
    """Return the pause after so many failures, of at least `minimum` seconds."""
    return jittered_seconds(
        failures,
        minimum=task_kinds.min_backoff(kind),
        maximum=MAX_BACKOFF_SECONDS,
        factor=4,
        at_least=minimum,
    )
