"""What became of triggers, and the starts of the server."""

import uuid

from django.db import models


class TriggerState(models.Model):
    """What became of a trigger's occasions, and how far its clock has come."""

    name = models.CharField(max_length=255, primary_key=True)
    """The trigger's, by the YAML."""
    schedule = models.CharField(max_length=600, blank=True, default="")
    """What a cron is armed for: its expression and time zone. Empty: it is not."""
    until = models.DateTimeField(null=True)
    """Up to when its ticks are dealt with."""
    fired = models.BigIntegerField(default=0)
    fired_at = models.DateTimeField(null=True)
    """When it last did."""
    missed = models.BigIntegerField(default=0)
    """Ticks that came while nothing ran, and were not caught up."""
    missed_at = models.DateTimeField(null=True)
    """The last of them."""
    repeated = models.BigIntegerField(default=0)
    """Deliveries that had been made before."""
    skipped = models.BigIntegerField(default=0)
    """Occasions that were left out because a run was not over."""

    def __str__(self) -> str:
        return self.name


class ServerStart(models.Model):
    """A start of the server, for what is done once at each."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    started_at = models.DateTimeField()
    is_separate = models.BooleanField(default=False)
    """Whether workers run apart, and the first of them to come up is the start."""
    worker_count = models.IntegerField(default=1)
    """How many there are, apart; those that were killed still count."""
    heartbeat_at = models.DateTimeField(null=True)
    """When one of them last said that it is there; null when all have gone."""

    def __str__(self) -> str:
        return f"{self.id} {self.started_at}"
