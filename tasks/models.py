"""Work that was accepted: each row is the truth about one piece of it."""

import uuid

from django.db import models
from django.db.models import Q


class Task(models.Model):
    """A piece of work, from when it is accepted to how it ended."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        ERRORED = "errored"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=16)
    """What sort of work it is: one that `kinds` knows."""
    user_id = models.UUIDField()
    """Whose it is; erased with them."""
    agent = models.CharField(max_length=255)
    """The agent or experiment that works, as it was named."""
    prompt = models.TextField(blank=True, default="")
    """What the agent is told."""
    payload = models.JSONField(default=dict)
    """More that its kind needs to know."""
    origin = models.CharField(max_length=300, blank=True, default="")
    """What began it: `api`, `turn:ID`, `trigger:NAME`, `smoke:NAME`."""
    turn_id = models.UUIDField(null=True)
    """The turn it is about, or that it took."""
    token_id = models.UUIDField(null=True)
    """The API token it is charged to."""
    request_id = models.CharField(max_length=128, blank=True, default="")
    """The name of the request it came with."""
    key = models.CharField(max_length=600, null=True, unique=True)  # noqa: DJ001
    """What is done once only, whoever asks for it; null may be done again."""
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0)
    """The highest is taken first."""
    round = models.BigIntegerField(default=0)
    """Of one priority the lowest is taken first (`tasks.queue.fair_scheduling`), then
    the oldest.
    """
    attempts = models.IntegerField(default=0)
    """How often it was taken; the present attempt's number is its lease."""
    failures = models.IntegerField(default=0)
    """Attempts that ended with an error."""
    interruptions = models.IntegerField(default=0)
    """Attempts that ended with their worker."""
    max_failures = models.IntegerField(default=1)
    """After so many it is errored."""
    due_at = models.DateTimeField()
    """When it may be taken: at once, after a pause, or when its lease has run out."""
    is_cancelled = models.BooleanField(default=False)
    """Whether somebody asked for its end while it ran."""
    worker = models.CharField(max_length=255, blank=True, default="")
    """Which process took it last: `HOST:PID:STARTED`."""
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
        # In this order: of two that cost the same, SQLite takes the newer.
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
            # What the studio lists. None begins with the kind: SQLite would look for
            # work that waits among all there ever was of it.
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
