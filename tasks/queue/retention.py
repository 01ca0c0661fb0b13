"""Deletes tasks that ended long enough ago."""

import logging
from datetime import datetime, timedelta
from functools import partial

from config import live
from core.runtime import batches
from tasks.config import TASKS
from tasks.models import Task
from tasks.queue import lifecycle

BATCH = 500
"""Tasks per transaction. On SQLite other writers wait for each one."""
MAX_SECONDS = 600.0
"""Time limit of one run; the next run continues."""

logger = logging.getLogger(__name__)


def delete_expired(now: datetime) -> int:
    """Delete the tasks that ended more than `keep_days` ago; return how many.

    Their idempotency keys become free.
    """
    keep_days = live.current().get(TASKS).keep_days
    if keep_days is None:
        return 0
    batch = partial(_delete_batch, now - timedelta(days=keep_days))
    deleted = batches.run_batches(batch, size=BATCH, seconds=MAX_SECONDS)
    if deleted:
        logger.info("deleted %d tasks that ended %d days ago", deleted, keep_days)
    return deleted


def _delete_batch(before: datetime) -> int:
    """Delete the oldest tasks, up to one batch."""
    # A task ends after its creation, and the index is on the creation time.
    old = Task.objects.filter(
        created_at__lt=before, finished_at__lt=before, state__in=lifecycle.CLOSED
    ).order_by("created_at", "-id")
    ids = list(old.values_list("pk", flat=True)[:BATCH])
    count, _ = Task.objects.filter(pk__in=ids).delete()
    return count
