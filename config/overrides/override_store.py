"""Reads what the studio says from its tables: `settings.COULISSE_OVERLAYS`.

Nothing here raises for a database that is away or has no tables yet: the YAML serves
without. A database that does not exist is not made by looking.
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

from config.models import Override, OverrideVersion
from config.overlays import NO_OVERLAYS, Overlay, Overlays

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""How long a database that did not answer is left alone: to ask may take as long."""

logger = logging.getLogger(__name__)


class DatabaseStore:
    """What the tables hold now, asked on the connection of whoever asks."""

    def __init__(self) -> None:
        self._unavailable = threading.local()

    def newest_version(self) -> int | None:
        """Return the id of the last change, 0 before the first."""
        if time.monotonic() < getattr(self._unavailable, "until", 0.0):
            return None
        newest = _query(_newest_version, 0)
        if newest is None:
            self._unavailable.until = time.monotonic() + RETRY_SECONDS
        return newest

    def read(self) -> Overlays | None:
        """Return what the tables hold."""
        return _query(load_overlays, NO_OVERLAYS)

    def read_in_thread(self) -> Overlays | None:
        """Return what the tables hold, asked in a thread that ends with the answer."""

        def ask() -> Overlays | None:
            try:
                return self.read()
            finally:
                connection.close()

        with ThreadPoolExecutor(1, "overlays") as executor:
            return executor.submit(ask).result()

    def close(self) -> None:
        """Let go of this thread's connection."""
        connection.close()


STORE = DatabaseStore()


def _query(ask: Callable[[], T], nothing: T) -> T | None:
    """Return what it returns, `nothing` where there are no tables, None if away."""
    if not database_exists():
        return nothing
    try:
        return ask()
    except (DatabaseError, InterfaceError) as exc:
        if _is_table_missing():
            return nothing
        logger.debug("what the studio says cannot be read: %s", exc)
        if not connection.in_atomic_block:
            connection.close()
        return None


def _newest_version() -> int:
    last = OverrideVersion.objects.order_by("-id").values_list("id", flat=True).first()
    return last or 0


def load_overlays() -> Overlays:
    """Return what the tables hold; raises what Django raises."""
    # First, so that what is stored meanwhile is looked at again.
    version = _newest_version()
    rows = Override.objects.order_by("id").values_list(
        "section", "name", "body", "is_tombstone"
    )
    entries = (
        Overlay(section, name, None if is_tombstone else body)
        for section, name, body, is_tombstone in rows
    )
    return Overlays(version, tuple(entries))


def database_exists() -> bool:
    """Return whether there is a database to ask: to ask SQLite would create one."""
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
