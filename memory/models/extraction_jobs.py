"""The model of background jobs that extract facts."""

from django.db import models
from django.db.models import Q

from memory.models.threads import Thread


class ExtractionJob(models.Model):
    """A background job that extracts facts from one turn."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    user_id = models.UUIDField()
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE)
    turn_id = models.UUIDField()
    first_position = models.BigIntegerField()
    end_position = models.BigIntegerField()
    """The turn's messages: `first_position <= position < end_position`."""
    agent = models.CharField(max_length=255)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16, choices=State, default="queued")
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField()
    """When it becomes claimable: at once, after a pause, or when a lease expires."""
    error = models.TextField(blank=True, default="")
    reply = models.TextField(blank=True, default="")
    """The model's reply, if it caused the failure."""
    facts_found = models.IntegerField(default=0)
    facts_saved = models.IntegerField(default=0)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["queued", "running"]),
                name="memory_extractionjob_due",
            ),
            models.Index(fields=["user_id", "id"], name="memory_extractionjob_of_user"),
            models.Index(
                fields=["id"],
                condition=Q(state="failed"),
                name="memory_extractionjob_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"extraction job of turn {self.turn_id} ({self.state})"
