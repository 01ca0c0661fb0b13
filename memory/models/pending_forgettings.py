"""The model of facts that an agent wants to forget."""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction

LIFETIME = timedelta(minutes=15)
"""The time in which the user may agree."""


class PendingForgettingQuerySet(models.QuerySet["PendingForgetting"]):
    """The questions that users have not answered, one per thread."""

    def expired(self, now: datetime) -> "PendingForgettingQuerySet":
        """Return questions that can no longer be answered, oldest first."""
        return self.filter(expires_at__lte=now).order_by("expires_at")

    def store_question(
        self,
        user_id: uuid.UUID,
        thread: str,
        turn_id: uuid.UUID,
        fact_ids: Collection[str],
        now: datetime,
    ) -> None:
        """Store what a user is asked in a turn: in addition to earlier questions of
        the turn, and in place of those of other turns."""
        with transaction.atomic():
            row = self._locked(user_id, thread).first()
            if row is None:
                row = PendingForgetting(user_id=user_id, thread=thread)
            elif row.turn_id == turn_id:
                fact_ids = {*row.fact_ids, *fact_ids}
            row.turn_id, row.fact_ids = turn_id, sorted(fact_ids)
            row.expires_at = now + LIFETIME
            row.save()

    def take(
        self,
        user_id: uuid.UUID,
        thread: str,
        turn_id: uuid.UUID,
        fact_ids: Collection[str],
        now: datetime,
    ) -> uuid.UUID | None:
        """Remove facts from the question of an earlier turn, and return that turn.

        Returns None if the question was not about all of them, or has expired.
        """
        with transaction.atomic():
            row = self._locked(user_id, thread).exclude(turn_id=turn_id).first()
            if row is None or row.expires_at <= now or not fact_ids:
                return None
            rest = sorted({*row.fact_ids} - {*fact_ids})
            if len(rest) + len({*fact_ids}) != len(row.fact_ids):
                return None
            if rest:
                row.fact_ids = rest
                row.save(update_fields=["fact_ids"])
            else:
                row.delete()
            return row.turn_id

    def _locked(self, user_id: uuid.UUID, thread: str) -> "PendingForgettingQuerySet":
        return self.select_for_update().filter(user_id=user_id, thread=thread)


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
