"""The model of facts that an agent wants to forget."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import models

LIFETIME = timedelta(minutes=15)
"""The time in which the user may agree."""


class PendingForgettingQuerySet(models.QuerySet["PendingForgetting"]):
    """What users were asked about, one question per thread."""

    def expired(self, now: datetime) -> "PendingForgettingQuerySet":
        """Return questions that can no longer be answered, oldest first."""
        return self.filter(expires_at__lte=now).order_by("expires_at")

    def ask(
        self,
        user_id: uuid.UUID,
        thread: str,
        turn_id: uuid.UUID,
        fact_ids: list[str],
        now: datetime,
    ) -> None:
        """Store what a user is asked in a turn, in place of an earlier question."""
        self.update_or_create(
            user_id=user_id,
            thread=thread,
            defaults={
                "turn_id": turn_id,
                "fact_ids": fact_ids,
                "expires_at": now + LIFETIME,
            },
        )

    def take(
        self, user_id: uuid.UUID, thread: str, turn_id: uuid.UUID, now: datetime
    ) -> "PendingForgetting | None":
        """Return the question of an earlier turn, once, unless it has expired."""
        asked = self.filter(user_id=user_id, thread=thread, expires_at__gt=now)
        found = asked.exclude(turn_id=turn_id).first()
        # Of two calls at once, one deletes it.
        is_taken = found is not None and asked.filter(pk=found.pk).delete()[0]
        return found if is_taken else None


class PendingForgetting(models.Model):
    """Facts that are forgotten if their user agrees in a later turn of the thread."""

    user_id = models.UUIDField()
    thread = models.CharField(max_length=512, blank=True)
    turn_id = models.UUIDField()
    """The turn in which the agent asked."""
    fact_ids: "models.JSONField[Any, Any]" = models.JSONField()
    """Their public ids."""
    expires_at = models.DateTimeField(db_index=True)

    objects = PendingForgettingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "thread"], name="memory_pending_forgetting_thread"
            )
        ]

    def __str__(self) -> str:
        return f"{len(self.fact_ids)} facts of {self.user_id}"
