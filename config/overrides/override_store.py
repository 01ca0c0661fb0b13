"""Reads the studio's overrides from the database: `settings.COULISSE_OVERLAYS`.

These functions do not raise if the database is unavailable or lacks the tables: the
server runs from the YAML alone. Reading never creates a database.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from django.db import connection
from django.db.utils import DatabaseError, InterfaceError

from config.loading.overlays import NO_OVERLAYS, Overlays
from config.models import Override, OverrideVersion

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""Pause after the database did not answer: a query may take as long to fail."""

logger = logging.getLogger(__name__)


class DatabaseStore:
    """Reads the tables on the calling thread's connection."""

    def __init__(self) -> None:
        self._unavailable = threading.local()

    def newest_version(self) -> int | None:
        """Return the id of the last change, 0 before the first."""
        if time.monotonic() < getattr(self._unavailable, "until", 0.0):
            return None
        newest = _run_query(OverrideVersion.objects.newest_id, 0)
        if newest is None:
            self._unavailable.until = time.monotonic() + RETRY_SECONDS
        return newest

    def read(self) -> Overlays | None:
        return _run_query(Override.objects.load_overlays, NO_OVERLAYS)

    def read_in_thread(self) -> Overlays | None:
        """Return the stored overrides, read in a short-lived thread."""

        def read() -> Overlays | None:
            try:
                return self.read()
            finally:
                connection.close()

        with ThreadPoolExecutor(1, "overlays") as executor:
            return executor.submit(read).result()

    def close(self) -> None:
        """Close this thread's connection."""
        connection.close()


STORE = DatabaseStore()


def _run_query(query: Callable[[], T], default: T) -> T | None:
    """Return the result of `query`, `default` without tables, None if unavailable."""
    if not database_exists():
        return default
    try:
        return query()
    except (DatabaseError, InterfaceError) as exc:
        if _is_table_missing():
            return default
        logger.debug("could not read the studio's overrides: %s", exc)
        if not connection.in_atomic_block:
            connection.close()
        return None


def database_exists() -> bool:
    """Return whether the database exists: connecting to SQLite would create it."""
    name = connection.settings_dict["NAME"]
    if connection.vendor != "sqlite" or not isinstance(name, Path):
        return True
    return name.exists()


def _is_table_missing() -> bool:
    try:
        if connection.in_atomic_block:
            return False
        with connection.cursor() as cursor:
            known = connection.introspection.table_names(cursor)
    except (DatabaseError, InterfaceError):
        return False
    return Override._meta.db_table not in known
