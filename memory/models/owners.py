"""Models of the users that memories belong to."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models import F
from django.utils import timezone

from core.runtime import shared_clock
from memory.errors import UserErased
from memory.models import plain_sql

ERASED_SQL = """
    EXISTS (SELECT 1 FROM memory_erasure WHERE user_digest = %s AND at >= %s)
"""
"""Whether a user was erased since a time: a condition with `erasure_values`."""
LONGEST_TURN = timedelta(days=1)


class OwnerQuerySet(models.QuerySet["Owner"]):
    """Locks and versions of users' memories."""

    def lock(self, user_id: UUID, now: datetime) -> "Owner":
        """Return the user's row, created if missing, locked for this transaction.

        On PostgreSQL, SELECT … FOR UPDATE makes other transactions wait; on SQLite, the
        IMMEDIATE transaction itself already excludes other writers.
        """
        owner, _ = self.select_for_update().get_or_create(
            user_id=user_id, defaults={"created_at": now}
        )
        return owner

    def of_user(self, user_id: UUID) -> "Owner":
        """Return the user's row, or a new one that is not stored."""
        return self.filter(user_id=user_id).first() or Owner(user_id=user_id)

    @contextmanager
    def locked(self, user_id: UUID) -> Iterator[datetime]:
        """Lock the user's facts in a transaction; yields its time."""
        now = timezone.now()
        with transaction.atomic():
            self.lock(user_id, now)
            yield now

    def bump_version(self, user_id: UUID) -> bool:
        """Tell all processes that passages were removed or have new vectors.

        Returns False if the user has no row, because it was erased meanwhile.
        """
        return bool(self.filter(user_id=user_id).update(version=F("version") + 1))

    def ensure_bumped(self, user_id: UUID) -> None:
        """Increment the version; create a missing row."""
        if not self.bump_version(user_id):
            with self.locked(user_id):
                self.bump_version(user_id)


class Owner(models.Model):
    """A user with memories; the row is locked while the user's facts change."""

    user_id = models.UUIDField(unique=True)
    version = models.BigIntegerField(default=0)
    """Incremented on removals and new vectors, so that processes refresh their
    caches."""
    time_zone = models.CharField(max_length=64, blank=True, default="")
    """The IANA time zone that the client sent last; "" is UTC."""
    is_recall_on = models.BooleanField(default=True, db_default=True)
    """Whether prompts and tools may use the user's memories."""
    is_learning_on = models.BooleanField(default=True, db_default=True)
    """Whether facts may be extracted from the user's conversations."""
    created_at = models.DateTimeField()

    objects = OwnerQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.user_id)


class PendingErasureQuerySet(models.QuerySet["PendingErasure"]):
    def expired(self, now: datetime) -> "PendingErasureQuerySet":
        """Return requests that can no longer be confirmed, oldest first."""
        return self.filter(expires_at__lte=now).order_by("expires_at")


class PendingErasure(models.Model):
    """An erasure request that awaits confirmation."""

    user_id = models.UUIDField(unique=True)
    confirmation_digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    objects = PendingErasureQuerySet.as_manager()

    def __str__(self) -> str:
        return f"erasure of {self.user_id}"


class ErasureQuerySet(models.QuerySet["Erasure"]):
    """Erasures that running turns look for, so that they store nothing."""

    def expired(self, now: datetime) -> "ErasureQuerySet":
        """Return those before which no running turn began, oldest first."""
        return self.filter(at__lte=now - LONGEST_TURN).order_by("at")

    def record(self, user_id: UUID) -> None:
        """Note that a user is erased now."""
        values = {"at": shared_clock.now()}
        self.update_or_create(user_digest=_digest(user_id), defaults=values)

    def refuse_erased(self, user_id: UUID, since: datetime | None) -> None:
        """Raise `UserErased` if a user was erased since a time, if there is one."""
        if since is None:
            return
        rows = plain_sql.fetch_rows(
            f"SELECT {ERASED_SQL}", erasure_values(user_id, since)
        )
        if rows[0][0]:
            raise UserErased


class Erasure(models.Model):
    """The time at which a user was erased, without the user's id."""

    user_digest = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField(db_index=True)

    objects = ErasureQuerySet.as_manager()

    def __str__(self) -> str:
        return f"erasure {self.user_digest}"


def erasure_values(user_id: UUID, since: datetime | None) -> list[Any]:
    """Return the values of `ERASED_SQL`; none without a time."""
    if since is None:
        return []
    return [_digest(user_id), plain_sql.to_sql_time(since)]


def _digest(user_id: UUID) -> str:
    return hashlib.sha256(user_id.bytes).hexdigest()
