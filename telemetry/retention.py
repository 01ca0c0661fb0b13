"""Turns that are old enough are deleted."""

import logging
import time
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from config import live
from telemetry.config import TELEMETRY
from telemetry.models import ModelCall, ToolCall, Turn

BATCH = 100
"""Turns of one transaction: who writes meanwhile waits for it on SQLite."""
MOST_SECONDS = 600.0
"""Of one run; the next one goes on."""

logger = logging.getLogger(__name__)


def run(now: datetime) -> int:
    """Delete the turns that began more than `keep_days` ago; return how many.

    That also where turns are no longer recorded: those that were grow old all the same.
    """
    keep_days = live.current().get(TELEMETRY).sqlite.keep_days
    if keep_days is None:
        return 0
    before = now - timedelta(days=keep_days)
    end = time.monotonic() + MOST_SECONDS
    deleted = 0
    while count := _delete_batch(before):
        deleted += count
        if count < BATCH or time.monotonic() >= end:
            break
    if deleted:
        logger.info("deleted %d turns older than %d days", deleted, keep_days)
    return deleted


def _delete_batch(before: datetime) -> int:
    """Delete the oldest turns, then leave the database to others for as long."""
    begun = time.monotonic()
    with transaction.atomic():
        old = Turn.objects.filter(started_at__lt=before).order_by("started_at", "id")
        # What another run is deleting at this moment, it will have deleted.
        claimed = old.select_for_update(skip_locked=True).values_list("id", flat=True)
        ids = list(claimed[:BATCH])
        if ids:
            _delete(ModelCall.objects.filter(turn__in=ids))
            _delete(ToolCall.objects.filter(turn__in=ids))
            _delete(Turn.objects.filter(pk__in=ids))
    time.sleep(time.monotonic() - begun)
    return len(ids)


def _delete(rows: QuerySet[Any]) -> None:
    # One DELETE. `delete()` reads every row to find what hangs on it.
    rows._raw_delete(rows.db)
