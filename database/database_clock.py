"""Compares the database's clock with this process's, for `core.runtime.shared_clock`.

Not on SQLite, where all processes are on one machine.
"""

import time
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from core.runtime import shared_clock

CLOCK_SQL = "SELECT extract(epoch FROM clock_timestamp())"


def synchronize() -> None:
    """Compare the clocks again, because they drift apart."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        _compare(connection)


def _compare(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor != "postgresql":
        return
    before = time.monotonic()
    # Below Django's cursor, because it is no query of the caller.
    with connection.connection.cursor() as cursor:
        seconds = float(cursor.execute(CLOCK_SQL).fetchone()[0])
    shared_clock.compare(seconds, before, time.monotonic())


connection_created.connect(_compare)
