"""Tasks that ended long enough ago are deleted."""

import logging
from datetime import datetime, timedelta
from functools import partial

from config import live
from core.runtime import batches
from tasks.config import TASKS
from tasks.models import Task
from tasks.queue import lifecycle

BATCH = 500
"""Tasks of one transaction: who writes meanwhile waits for it on SQLite."""
MAX_SECONDS = 600.0
"""Of one run; the next one goes on."""

logger = logging.getLogger(__name__)


def delete_expired(now: datetime) -> int:
    """Delete the tasks that ended more than `keep_days` ago; return how many.

    Of what is done once only, somebody may ask again from then on.
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
    """Delete the oldest."""
    # No task ends before it is made: that has an index to walk along.
    old = Task.objects.filter(
        created_at__lt=before, finished_at__lt=before, state__in=lifecycle.CLOSED
    ).order_by("created_at", "-id")
    ids = list(old.values_list("pk", flat=True)[:BATCH])
    count, _ = Task.objects.filter(pk__in=ids).delete()
    return count
