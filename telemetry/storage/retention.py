"""Deletes turns and expenses that are old enough."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from config import live
from core.runtime import batches
from telemetry.config import TELEMETRY
from telemetry.models import Expense, ModelCall, ToolCall, Turn

BATCH_SIZE = 100
"""Rows per transaction. On SQLite other writers wait for each one."""
MAX_SECONDS = 600.0
"""Time limit of one run; the next run continues."""

logger = logging.getLogger(__name__)


def delete_expired(now: datetime) -> int:
    """Delete the turns that began more than `keep_days` ago; return how many.

    Also runs while recording is off, for turns recorded before. Expenses of judges are
    deleted after the same time.
    """
    keep_days = live.current().get(TELEMETRY).sqlite.keep_days
    if keep_days is None:
        return 0
    before = now - timedelta(days=keep_days)
    deleted = _delete_old(partial(_delete_turns, before))
    if deleted:
        logger.info("deleted %d turns older than %d days", deleted, keep_days)
    _delete_old(partial(_delete_expenses, before))
    return deleted


def _delete_old(batch: Callable[[], int]) -> int:
    return batches.run_batches(batch, size=BATCH_SIZE, seconds=MAX_SECONDS)


def _delete_turns(before: datetime) -> int:
    """Delete the oldest turns with all their calls."""
    with transaction.atomic():
        old = Turn.objects.filter(started_at__lt=before).order_by("started_at", "id")
        # Rows that a concurrent run is deleting are skipped.
        claimed = old.select_for_update(skip_locked=True).values_list("id", flat=True)
        ids = list(claimed[:BATCH_SIZE])
        if ids:
            _delete(ModelCall.objects.filter(turn__in=ids))
            _delete(ToolCall.objects.filter(turn__in=ids))
            _delete(Turn.objects.filter(pk__in=ids))
    return len(ids)


def _delete_expenses(before: datetime) -> int:
    """Delete the oldest expenses."""
    old = Expense.objects.filter(spent_at__lt=before).order_by("spent_at", "id")
    ids = list(old.values_list("id", flat=True)[:BATCH_SIZE])
    if ids:
        _delete(Expense.objects.filter(pk__in=ids))
    return len(ids)


def _delete(rows: QuerySet[Any]) -> None:
    # One DELETE. `delete()` would read every row to find related ones.
    rows._raw_delete(rows.db)
