"""State of triggers, and starts of the server."""

import uuid

from django.db import models


class TriggerState(models.Model):
    """Counters of a trigger's events, and the position of its cron."""

    name = models.CharField(max_length=255, primary_key=True)
    """The trigger's name in the YAML."""
    schedule = models.CharField(max_length=600, blank=True, default="")
    """The expression and time zone of a scheduled cron; empty for others."""
    until = models.DateTimeField(null=True)
    """Ticks up to this time are processed."""
    run_count = models.BigIntegerField(default=0)
    last_run_at = models.DateTimeField(null=True)
    missed = models.BigIntegerField(default=0)
    """Ticks that passed while no worker ran and were not caught up."""
    missed_at = models.DateTimeField(null=True)
    """The latest of these ticks."""
    repeated = models.BigIntegerField(default=0)
    """Repeated deliveries of a webhook."""
    skipped = models.BigIntegerField(default=0)
    """Events that were skipped because a run was still active."""

    def __str__(self) -> str:
        return self.name


class ServerStart(models.Model):
    """A start of the server, for triggers that run once per start."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    started_at = models.DateTimeField()
    is_separate = models.BooleanField(default=False)
    """Whether workers run separately, so that the first one of them is the start."""
    worker_count = models.IntegerField(default=1)
    """Number of separate workers, including killed ones."""
    heartbeat_at = models.DateTimeField(null=True)
    """Latest heartbeat of any of them; null after all have stopped."""

    def __str__(self) -> str:
        return f"{self.id} {self.started_at}"
