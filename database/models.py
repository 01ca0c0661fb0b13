"""The table of the processes that use this database."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import QuerySet
from django.db.models.functions import Now

from database.running_processes import GONE_AFTER_SECONDS

KINDS = [("web", "Web"), ("worker", "Worker"), ("beat", "Beat")]
KEPT = timedelta(hours=1)
"""How long the row of a killed process remains visible."""


class RunningProcessQuerySet(QuerySet["RunningProcess"]):
    """Times are the database's: the clocks of machines may differ."""

    def running(self) -> "RunningProcessQuerySet":
        return self.filter(seen_at__gt=Now() - timedelta(seconds=GONE_AFTER_SECONDS))

    def write(self, row: "RunningProcess") -> None:
        """Insert or update a process's row, with one statement."""
        row.started_at = row.seen_at = Now()
        self.bulk_create(
            [row],
            update_conflicts=True,
            unique_fields=["id"],
            update_fields=["seen_at", "config_digest", "key_ids"],
        )

    def expired(self, now: datetime) -> "RunningProcessQuerySet":
        return self.filter(seen_at__lt=now - KEPT).order_by("seen_at")


class RunningProcess(models.Model):
    """A web, worker or beat process; it writes its row every few seconds."""

    id = models.UUIDField(primary_key=True, help_text="New at each start.")
    kind = models.CharField(max_length=16, choices=KINDS)
    host = models.CharField(max_length=255)
    pid = models.BigIntegerField("PID")
    version = models.CharField(max_length=32)
    config_digest = models.CharField(
        "YAML", max_length=64, help_text="Digest of its YAML file."
    )
    key_ids = models.CharField(
        "keys", max_length=255, blank=True, help_text="Short digests of its keys."
    )
    started_at = models.DateTimeField("started")
    seen_at = models.DateTimeField("last seen", db_index=True)

    objects = RunningProcessQuerySet.as_manager()

    class Meta:
        verbose_name = "process"
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.kind} on {self.host}, PID {self.pid}"
