"""Deletes the expired rows of all tables.

A model has a retention if its manager has a method `expired(now)`, which returns the
rows to delete, oldest first. If other rows change with them, the manager deletes them
itself, in `delete_rows`. What must be stored of the rows before, `prepare_deletion`
does.
"""

import logging
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Model

BATCH_SIZE = 100
"""Rows per transaction. On SQLite other writers wait for each one."""
MAX_SECONDS = 600.0
"""Time limit for one table; the next run continues."""

logger = logging.getLogger(__name__)


def models_with_retention() -> Iterator[type[Model]]:
    """Yield the models whose rows expire."""
    for model in apps.get_models():
        if not model._meta.proxy and hasattr(model._default_manager, "expired"):
            yield model


def delete_all_expired(now: datetime) -> None:
    """Delete the expired rows of every model; an error skips one model only."""
    for model in models_with_retention():
        try:
            delete_expired(model, now)
        except Exception:
            logger.exception("cannot delete expired %s", _plural(model))


def delete_expired(model: type[Model], now: datetime) -> int:
    """Delete the expired rows of a model, in batches; return how many.

    After each batch, it pauses for as long as the batch took.
    """
    manager: Any = model._default_manager
    if hasattr(manager, "prepare_deletion"):
        manager.prepare_deletion(now)
    deadline = time.monotonic() + MAX_SECONDS
    total = 0
    while True:
        started_at = time.monotonic()
        count = _delete_batch(manager, now)
        total += count
        if count < BATCH_SIZE or time.monotonic() >= deadline:
            break
        time.sleep(time.monotonic() - started_at)
    if total:
        logger.info("deleted %d expired %s", total, _plural(model))
    return total


def _delete_batch(manager: Any, now: datetime) -> int:
    """Delete up to one batch of rows, and the rows that belong to them."""
    expired = manager.expired(now)
    if hasattr(manager, "delete_rows"):
        ids = list(expired.values_list("pk", flat=True)[:BATCH_SIZE])
        manager.delete_rows(ids)
        return len(ids)
    with transaction.atomic():
        # Rows that a concurrent run is deleting are skipped.
        claimed = expired.select_for_update(skip_locked=True)
        ids = list(claimed.values_list("pk", flat=True)[:BATCH_SIZE])
        if ids:
            # Django reads the rows to find their children; the key is enough for that.
            manager.filter(pk__in=ids).only("pk").delete()
    return len(ids)


def _plural(model: type[Model]) -> str:
    return str(model._meta.verbose_name_plural)
