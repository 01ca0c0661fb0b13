"""A lock of all processes that share the database."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from django.db import connection, connections

TRY_SECONDS = 0.2
TRY_LOCK_SQL = "SELECT pg_try_advisory_xact_lock(hashtext(%s), 0)"


@contextmanager
def held(name: str, on_wait: Callable[[], object]) -> Iterator[None]:
    """Hold a lock of all processes of the database; `on_wait` is called once to wait.

    On PostgreSQL it is a transaction of a second connection, not of a session, so it
    also works through a pooler. It reads nothing, so it delays no other statement.
    """
    with _opened(name) as try_lock:
        if not try_lock():
            on_wait()
            while not try_lock():
                time.sleep(TRY_SECONDS)
        yield


@contextmanager
def tried(name: str) -> Iterator[bool]:
    """Hold the lock if no other process does, and say whether it is held."""
    with _opened(name) as try_lock:
        yield try_lock()


@contextmanager
def _opened(name: str) -> Iterator[Callable[[], bool]]:
    if connection.vendor == "sqlite":
        with _opened_file(name) as try_lock:
            yield try_lock
        return
    other = connections.create_connection(connection.alias)
    try:
        other.set_autocommit(False)
        with closing(other.cursor()) as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")

            def try_lock() -> bool:
                cursor.execute(TRY_LOCK_SQL, [name])
                return bool(cursor.fetchone()[0])

            yield try_lock
    finally:
        other.close()


@contextmanager
def _opened_file(name: str) -> Iterator[Callable[[], bool]]:
    path = Path(str(connection.settings_dict["NAME"]))
    descriptor = os.open(path.with_name(f"{name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)

    def try_lock() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield try_lock
    finally:
        os.close(descriptor)
