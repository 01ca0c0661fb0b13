"""Totals of finished hours, so that sums over months do not read each turn."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

from django.db import models

from config import live
from telemetry.config import TELEMETRY
from telemetry.models.choices import choice_constraint
from telemetry.models.turns import Turn
from telemetry.statistics.time_buckets import HourBucket

HOUR = timedelta(hours=1)


def floor_hour(at: datetime) -> datetime:
    """Return the start of an instant's hour, in UTC."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def parse_hour(bucket: str) -> datetime:
    """Return the start of an hour; see `HourBucket`."""
    return datetime.strptime(f"{bucket}+0000", "%Y-%m-%d %H%z")


class RolledHourQuerySet(models.QuerySet["RolledHour"]):
    def within(self, since: datetime, until: datetime) -> list[datetime]:
        """Return the hours that lie in a period completely, in order."""
        first = floor_hour(since)
        first += HOUR if first < since else timedelta(0)
        last = until - HOUR + datetime.resolution
        hours = self.filter(pk__gte=first, pk__lte=last).order_by("pk")
        return list(hours.values_list("pk", flat=True))

    def open_again(self, users: Collection[UUID]) -> None:
        """Delete the totals that include turns of these users, who are being erased.

        Until the next roll-up, sums read the turns of these hours. Totals whose turns
        are deleted by age stay: they contain no user.
        """
        turns = Turn.objects.filter(user_id__in=users).order_by()
        texts = turns.values_list(HourBucket("started_at"), flat=True).distinct()
        hours = list(map(parse_hour, texts))
        for start in range(0, len(hours), 500):
            batch = hours[start : start + 500]
            self.filter(pk__in=batch, is_sealed=False).delete()

    def expired(self, now: datetime) -> Self:
        """Return the hours past `keep_totals_days`, oldest first."""
        days = live.current().get(TELEMETRY).sqlite.totals_days
        if days is None:
            return self.none()
        return self.filter(pk__lt=now - timedelta(days=days)).order_by("pk")


class RolledHour(models.Model):
    """An hour whose turns and expenses are totalled."""

    hour = models.DateTimeField(primary_key=True)
    is_sealed = models.BooleanField(default=False, db_default=False)
    """Whether its turns may be deleted already, so that it is never totalled again."""

    objects = RolledHourQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}"


class TotalKind(models.TextChoices):
    """The rows that are totalled."""

    TURN = "turn"
    TOKEN = "token"  # noqa: S105  a kind of total
    """Turns with model calls, by the API token of the request."""
    CALL = "call"
    """Model calls, in the hour in which their turn started."""
    JUDGE = "judge"
    EMBEDDING = "embedding"


class HourlyTotal(models.Model):
    """What started in an hour, for one combination of the other columns.

    No column names a user: hours of a large server have as many users as turns, so such
    totals would be as many rows as the turns, and personal data.
    """

    hour = models.ForeignKey(RolledHour, on_delete=models.CASCADE, db_index=False)
    kind = models.CharField(max_length=16, choices=TotalKind)
    agent = models.CharField(max_length=255, blank=True, default="")
    provider = models.CharField(max_length=255, blank=True, default="")
    model = models.CharField(max_length=255, blank=True, default="")
    token_id = models.UUIDField(null=True)
    is_shadow = models.BooleanField(default=False)
    has_calls = models.BooleanField(default=True)
    """Whether the turns have model calls."""
    number = models.BigIntegerField()
    """Turns, model calls or expenses."""
    unpriced = models.BigIntegerField()
    """Those of them without a known price."""
    # For model calls, the different turns; for expenses 0.
    turns = models.BigIntegerField(default=0)
    unpriced_turns = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    cancelled = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField(default=0)
    cache_write_tokens = models.BigIntegerField(default=0)
    micro_usd = models.BigIntegerField()
    """The known part of the cost."""

    class Meta:
        constraints = [
            choice_constraint(TotalKind, "kind", "telemetry_hourly_kind"),
        ]
        indexes = [models.Index(fields=["hour", "kind"], name="telemetry_hourly_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.hour_id}"
