"""Heartbeats of this process in the database. All functions run on database threads."""

import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)

from core.version import VERSION
from database import database_clock, running_processes
from database.models import RunningProcess
from database.running_processes import STATE, Fleet, ProcessReport

MIN_FREE_BYTES = 16 * 1024 * 1024
"""The log of SQLite grows by this much before it is emptied."""
PROBE_SQL = """
    CREATE TEMPORARY TABLE space_probe ON COMMIT DROP AS
    SELECT repeat('0', 1000) FROM generate_series(1, 64)
"""

_due_at = 0.0
"""When the next heartbeat of `beat_if_due` is sent, on the monotonic clock."""


def beat(report: ProcessReport, *, needs_space: bool = False) -> Fleet:
    """Write this process's row, and return the fleet; raises DatabaseError.

    `needs_space` also checks that there is room for new rows: a full PostgreSQL may
    still overwrite this one.
    """
    if connection.vendor == "sqlite":
        _check_free_space(Path(connection.settings_dict["NAME"]))
    elif needs_space:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(PROBE_SQL)
    RunningProcess.objects.write(
        RunningProcess(
            id=running_processes.own_id(),
            kind=report.kind,
            host=socket.gethostname()[:255],
            pid=os.getpid(),
            version=VERSION,
            config_digest=report.config_digest,
            key_ids=report.key_ids,
        )
    )
    database_clock.synchronize()
    return _read_fleet()


def beat_if_due(report: Callable[[], ProcessReport]) -> None:
    """Send a heartbeat every few seconds, for processes without an event loop."""
    global _due_at
    if time.monotonic() < _due_at:
        return
    _due_at = time.monotonic() + running_processes.HEARTBEAT_SECONDS
    try:
        STATE.succeed(beat(report()))
    except Exception as exc:  # A bug in a heartbeat must not end the process.
        STATE.fail(str(exc) or type(exc).__name__)
        connection.close()


def end() -> None:
    """Delete the row, because this process was not killed, if the database works."""
    with suppress(DatabaseError, InterfaceError):
        RunningProcess.objects.filter(id=running_processes.own_id()).delete()


def _check_free_space(database: Path) -> None:
    if not database.is_file():
        return  # In memory.
    free = shutil.disk_usage(database.parent).free
    if free < MIN_FREE_BYTES:
        raise OperationalError(f"the disk of {database} is full: {free} bytes are free")


def _read_fleet() -> Fleet:
    rows = list(RunningProcess.objects.running().values_list("kind", "config_digest"))
    kinds = [kind for kind, _ in rows]
    return Fleet(
        webs=kinds.count("web"),
        workers=kinds.count("worker"),
        beats=kinds.count("beat"),
        config_digests=sorted({digest for _, digest in rows}),
    )
