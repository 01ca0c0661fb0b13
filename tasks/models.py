"""Tasks: each row is the only source of truth about one task."""

import uuid

from django.db import models
from django.db.models import Q


class Task(models.Model):
    """A background task, from submission to its end."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        ERRORED = "errored"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=16)
    """The kind of work: a name known to `task_kinds`."""
    user_id = models.UUIDField()
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
    key = models.CharField(max_length=600, null=True, unique=True)  # noqa: DJ001
    """Idempotency key, unique among all tasks; null may run again."""
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0)
    """Higher values are claimed first."""
    round = models.BigIntegerField(default=0)
    """Within a priority the lowest round is claimed first
    (`tasks.queue.fair_scheduling`), then the oldest task.
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

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    state__in=["queued", "running", "done", "errored", "cancelled"]
                ),
                name="tasks_task_state",
            )
        ]
        # The order matters: of two indexes with equal cost, SQLite takes the newer.
        indexes = [
            models.Index(
                fields=["user_id", "-created_at", "id"], name="tasks_task_of_user"
            ),
            models.Index(fields=["-created_at", "id"], name="tasks_task_newest"),
            models.Index(fields=["origin", "-created_at"], name="tasks_task_origin"),
            models.Index(
                fields=["-priority", "round", "created_at", "due_at"],
                condition=Q(state__in=["queued", "running"]),
                name="tasks_task_open",
            ),
            models.Index(
                fields=["user_id", "priority", "round"],
                condition=Q(state__in=["queued", "running"]),
                name="tasks_task_open_of_user",
            ),
            models.Index(
                fields=["-created_at", "id"],
                condition=Q(state__in=["errored", "cancelled"]),
                name="tasks_task_failed",
            ),
            models.Index(
                fields=["user_id", "-created_at", "id"],
                condition=Q(state__in=["errored", "cancelled"]),
                name="tasks_task_failed_of_user",
            ),
            # Indexes of the studio's lists. None begins with the kind: SQLite would
            # otherwise search for waiting tasks among all tasks ever stored.
            models.Index(
                fields=["agent", "-created_at", "id"], name="tasks_task_of_agent"
            ),
            models.Index(
                fields=["-finished_at"],
                condition=Q(finished_at__isnull=False),
                name="tasks_task_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} of {self.agent}"
