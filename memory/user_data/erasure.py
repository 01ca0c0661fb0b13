"""Erasure of a user's data in two steps: a request, then its confirmation.

No data remains: no row and, on SQLite, no bytes in the file. Running turns are not
awaited, and are not stored: a digest of the user's id and the time remain for a day.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.signals import post_delete
from django.db.utils import DatabaseError, IntegrityError

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from core.ids import UserId
from database import user_data
from memory.errors import ConfirmationExpired, ConfirmationInvalid
from memory.models import Erasure, Owner, PendingErasure, Thread
from memory.recall.index import corpus_cache
from memory.transcript import message_cache
from telemetry.models import RolledHour

CONFIRMATION_LIFETIME = timedelta(minutes=15)
"""The lifetime of a confirmation."""

MAX_ATTEMPTS = 5
"""Attempts, because others may write about the user at the same time."""

DEADLOCK_SQLSTATE = "40P01"
"""PostgreSQL's code of a deadlock, in which it aborts one transaction."""


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """An erasure request that awaits confirmation."""

    confirmation: str
    """The only copy: the database stores its digest."""
    expires_at: datetime
    would_delete: Mapping[str, int]
    """Rows by table."""


def request_erasure(user_id: UserId, *, now: datetime | None = None) -> ErasureRequest:
    """Store an erasure request; return its confirmation and the rows to delete.

    It replaces an earlier request: only the last confirmation is valid.
    """
    confirmation = secrets.token_urlsafe(32)
    expires_at = (now or datetime.now(UTC)) + CONFIRMATION_LIFETIME
    PendingErasure.objects.update_or_create(
        user_id=user_id,
        defaults={
            "confirmation_digest": hash_confirmation(confirmation),
            "expires_at": expires_at,
        },
    )
    return ErasureRequest(confirmation, expires_at, count_rows(user_id))


def confirm_erasure(
    user_id: UserId,
    confirmation: str,
    *,
    event: AuditEvent | None = None,
    now: datetime | None = None,
) -> dict[str, int]:
    """Erase the user with this confirmation; return the deleted rows by table.

    Raises `ConfirmationInvalid` for a wrong, used or another user's confirmation, and
    `ConfirmationExpired` for an expired one.
    """
    request = PendingErasure.objects.filter(user_id=user_id).first()
    given = hash_confirmation(confirmation)
    if request is None or not secrets.compare_digest(
        request.confirmation_digest, given
    ):
        raise ConfirmationInvalid
    if request.expires_at <= (now or datetime.now(UTC)):
        raise ConfirmationExpired
    return erase_user(user_id, confirmation_digest=given, event=event)


def hash_confirmation(confirmation: str) -> str:
    return hashlib.sha256(confirmation.encode()).hexdigest()


def count_rows(user_id: UserId) -> dict[str, int]:
    """Return the number of a user's rows, by table."""
    return {table: rows.count() for table, rows in user_rows(user_id).items()}


def erase_user(
    user_id: UserId,
    *,
    confirmation_digest: str | None = None,
    event: AuditEvent | None = None,
) -> dict[str, int]:
    """Delete every row of a user, all or none; return how many, by table.

    The audit event is stored in the same transaction. API tokens that act for the user
    stay, because they belong to the operator.

    With `confirmation_digest` the request must still exist, so that of two concurrent
    confirmations one raises `ConfirmationInvalid`.
    """
    if connection.vendor == "sqlite":
        # Overwrites deleted content; not every SQLite build does so by default.
        _execute("PRAGMA secure_delete = ON")
    deleted = _try_erase(user_id, confirmation_digest, event, attempts=MAX_ATTEMPTS)
    transaction.on_commit(partial(_forget, user_id))
    return deleted


def _forget(user_id: UserId) -> None:
    """Remove what the caches and the write-ahead log still contain of a user."""
    message_cache.MESSAGE_CACHE.drop_user(user_id)
    corpus_cache.drop_user(user_id)
    if connection.vendor == "sqlite":
        _execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _try_erase(
    user_id: UserId,
    confirmation_digest: str | None,
    event: AuditEvent | None,
    *,
    attempts: int,
) -> dict[str, int]:
    """Erase, and retry when another transaction wrote about the user meanwhile."""
    try:
        with transaction.atomic():
            deleted = _delete_user_rows(user_id, confirmation_digest)
            if event is not None:
                rows = sum(deleted.values())
                audit_log.write(replace(event, details={**event.details, "rows": rows}))
            return deleted
    except DatabaseError as exc:
        if attempts <= 1 or not _is_retryable(exc):
            raise
        return _try_erase(user_id, confirmation_digest, event, attempts=attempts - 1)


def _is_retryable(exc: DatabaseError) -> bool:
    # A new message or passage refers to a row that was just deleted.
    is_orphan = isinstance(exc, IntegrityError)
    return is_orphan or getattr(exc.__cause__, "sqlstate", None) == DEADLOCK_SQLSTATE


def _delete_user_rows(
    user_id: UserId, confirmation_digest: str | None
) -> dict[str, int]:
    is_known = Owner.objects.filter(user_id=user_id).exists()
    _lock_rows(user_id)
    Erasure.objects.record(user_id)
    requests = PendingErasure.objects.filter(user_id=user_id)
    if confirmation_digest is not None:
        requests = requests.filter(confirmation_digest=confirmation_digest)
    if not _delete_rows(requests) and confirmation_digest is not None:
        raise ConfirmationInvalid
    RolledHour.objects.open_again([user_id])
    deleted = {table: _delete_rows(rows) for table, rows in user_rows(user_id).items()}
    # Do not count a row that was only created for the lock.
    return {**deleted, "owners": int(is_known)}


def _lock_rows(user_id: UserId) -> None:
    """Wait for running writes about the user, and block new ones."""
    Thread.objects.lock_of_user(user_id)
    # Creates a missing row, to wait also for a transaction that is creating it.
    Owner.objects.lock(user_id, datetime.now(UTC))
    threads = Thread.objects.filter(user_id=user_id).order_by("id")
    # SQLite has one writer at a time and no row locks.
    list(threads.select_for_update().values_list("id"))


def _delete_rows(rows: QuerySet[Any]) -> int:
    if post_delete.has_listeners(rows.model):
        # The rows have bytes elsewhere: those of files.
        return rows.only("pk").delete()[0]
    # A single DELETE. `delete()` would read every row to find dependent ones; here all
    # dependent tables are listed, and deleted before.
    return int(rows._raw_delete(rows.db))


def user_rows(user_id: UserId) -> dict[str, QuerySet[Any]]:
    """Return every row of a user by table, in an order that allows deletion.

    A new table must be declared in its app's `user_data.py`: a test looks for remaining
    rows.
    """
    return {table.name: table.rows([user_id]) for table in user_data.erasable()}


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.fetchall()
