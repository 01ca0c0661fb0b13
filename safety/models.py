"""Incidents: what safety checks have found."""

from datetime import UTC, datetime, timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Count, Q
from django.db.models.functions import TruncDate

from config import live
from core.ids import UserId
from safety.config import SAFETY

COUNTED_DAYS = 30
"""Days of the counts in the studio."""


class IncidentQuerySet(models.QuerySet["Incident"]):
    def session_levels(
        self, user_id: UserId, thread: str, since: datetime | None = None
    ) -> dict[str, str]:
        """Return the highest level of each check in a thread since a time."""
        rows = self.filter(user_id=user_id, thread=thread).exclude(level="")
        if since is not None:
            rows = rows.filter(at__gte=since)
        by_severity = rows.order_by("severity").values_list("check_name", "level")
        return dict(by_severity.distinct())

    def count_by_day(self, since: datetime) -> list[dict[str, Any]]:
        """Return the incidents of each day (UTC) and check, without failed checks."""
        rows = self.filter(at__gte=since).exclude(level="")
        by_day = rows.annotate(day=TruncDate("at", tzinfo=UTC)).order_by("day")
        return [*by_day.values("day", "check_name").annotate(count=Count("id"))]  # type: ignore[list-item]

    def expired(self, now: datetime) -> Self:
        """Return the incidents past `safety.keep_days`, oldest first."""
        days = live.current().get(SAFETY).keep_days
        if days is None:
            return self.none()
        return self.filter(at__lt=now - timedelta(days=days)).order_by("at")


class Incident(models.Model):
    """A level that a check found in a turn, or a check that failed."""

    reader_group = "safety"
    """The only group of the studio that may read incidents."""

    class Stage(models.TextChoices):
        BEFORE = "before"
        BESIDE = "beside"
        AFTER = "after"

    at = models.DateTimeField()
    check_name = models.CharField(max_length=64)
    level = models.CharField(max_length=64, blank=True, default="")
    """"" if the check failed."""
    severity = models.PositiveSmallIntegerField()
    """The position of the level in the check, from 1; 0 if the check failed."""
    stage = models.CharField(max_length=8, choices=Stage)
    agent = models.CharField(max_length=255)
    actions = models.CharField(max_length=128, blank=True, default="")
    """Its actions, such as `replace, webhook`."""
    reason = models.TextField(blank=True, default="")
    """The reason of the level, or the error of a check that failed."""
    excerpt = models.TextField(blank=True, default="")
    """Some of the text; "" for personal data and incognito turns."""
    # Null for an incognito turn.
    user_id = models.UUIDField(null=True)
    thread = models.CharField(max_length=512, blank=True, default="")
    turn_id = models.UUIDField(null=True)

    objects = IncidentQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["-at", "-id"], name="safety_newest"),
            models.Index(fields=["user_id", "thread"], name="safety_of_thread"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(stage__in=["before", "beside", "after"]),
                name="safety_stage",
            )
        ]

    def __str__(self) -> str:
        return f"{self.check_name}: {self.level or 'failed'}"
