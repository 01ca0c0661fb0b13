"""Starts of the server, for triggers that run once per start.

`start` passes an id to its processes, so a restarted beat belongs to the same start. A
separate beat that starts while no other runs is a new start.
"""

import uuid
from datetime import datetime, timedelta

from django.db import models, transaction
from django.db.models import F

from triggers.scheduling import server_start_id

BEAT_TIMEOUT = timedelta(seconds=30)
"""A beat without a heartbeat for so long counts as stopped."""
RETENTION = timedelta(days=30)
NAMESPACE = uuid.UUID("0d6f4f38-4b0a-5d59-8f35-6a4b7a3a4b0e")


class ServerStartQuerySet(models.QuerySet["ServerStart"]):
    """Registers beats with the start that they belong to."""

    def register(self, now: datetime) -> "ServerStart | None":
        """Return the start of this beat; None if it is not the first of its start."""
        start_id = server_start_id.read_id()
        start = (
            self._register_shared(start_id, now)
            if start_id
            else self._register_separate(now)
        )
        if start is not None:
            self.filter(started_at__lt=now - RETENTION).exclude(pk=start.pk).delete()
        return start

    def _register_shared(self, start_id: str, now: datetime) -> "ServerStart | None":
        start, is_new = self.get_or_create(
            pk=uuid.uuid5(NAMESPACE, start_id), defaults={"started_at": now}
        )
        return start if is_new else None

    def _register_separate(self, now: datetime) -> "ServerStart | None":
        last = self._newest_separate().select_for_update().first()
        if last is None or not last.is_alive(now):
            # Two beats that start at once derive the same id.
            previous = "apart" if last is None else last.pk.hex
            last, is_new = self.get_or_create(
                pk=uuid.uuid5(NAMESPACE, previous),
                defaults={"started_at": now, "is_separate": True, "heartbeat_at": now},
            )
            if is_new:
                return last
        self.filter(pk=last.pk).update(beat_count=F("beat_count") + 1, heartbeat_at=now)
        return None

    def _newest_separate(self) -> "ServerStartQuerySet":
        return self.filter(is_separate=True).order_by("-started_at")

    def record_heartbeat(self, now: datetime) -> None:
        """Record a heartbeat of this beat, if it runs separately."""
        if not server_start_id.read_id():
            newest = self._newest_separate().values_list("pk", flat=True)[:1]
            self.filter(pk__in=list(newest)).update(heartbeat_at=now)

    def deregister(self) -> None:
        """Record that this beat stops, if it runs separately.

        The last one ends the start.
        """
        if server_start_id.read_id():
            return
        with transaction.atomic():
            last = self._newest_separate().select_for_update().first()
            if last is None:
                return
            last.beat_count -= 1
            if last.beat_count <= 0:
                last.heartbeat_at = None
            last.save(update_fields=["beat_count", "heartbeat_at"])


class ServerStart(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    started_at = models.DateTimeField()
    is_separate = models.BooleanField(default=False)
    """Whether beat runs separately, so that the first one is the start."""
    beat_count = models.IntegerField(default=1)
    """Number of separate beats, including killed ones."""
    heartbeat_at = models.DateTimeField(null=True)
    """Latest heartbeat of any of them; null after all have stopped."""

    objects = ServerStartQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.id} {self.started_at}"

    def is_alive(self, now: datetime) -> bool:
        """Return whether one of its separate beats runs."""
        return self.heartbeat_at is not None and self.heartbeat_at >= now - BEAT_TIMEOUT
