"""The database executor: two jobs per turn, retries, timeouts and locks."""

import asyncio
import gc
import sqlite3
import threading

import httpx2
import pytest
from django.conf import settings
from django.db import OperationalError, connection

from database import database_executor
from database.errors import DatabaseDown, TurnDiscarded
from tests.gateway.calls import ask, body, open_connection, refused, stored, until

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

ON_SQLITE = connection.vendor == "sqlite"


@pytest.fixture
def jobs(monkeypatch):
    """The functions that the executor ran."""
    seen = []
    call = database_executor._call

    def record_job(function, args, kwargs):
        seen.append(function.__name__)
        return call(function, args, kwargs)

    monkeypatch.setattr(database_executor, "_call", record_job)
    return seen


@pytest.mark.parametrize("stream", [True, False])
def test_turn_takes_two_database_jobs(server, client, user, jobs, stream):
    with open_connection(server, body(user, stream=stream)) as caller:
        caller.read_until("stop")
        until(lambda: stored(user))
    assert jobs == ["load_context", "store_turn"]


def test_incognito_turn_takes_no_database_job(client, user, jobs):
    ask(client, user, metadata={"memory": "incognito"})
    assert jobs == []


def test_open_streams_hold_no_database_thread(server, fake, client, user):
    count = settings.COULISSE_DATABASE_THREADS * 3
    for _ in range(count):
        fake.hang("mid_stream", "first", "second")
    open_ones = [
        open_connection(server, body(f"{user}-{number}", stream=True))
        for number in range(count)
    ]
    callers = [one.__enter__() for one in open_ones]
    for caller in callers:
        caller.read_until("first")
    assert httpx2.get(f"{server}/health/ready", timeout=60).status_code == 200
    ask(client, user)
    for one in open_ones:
        one.__exit__(None, None, None)


async def test_read_is_retried_after_a_lost_connection():
    calls = []

    def read() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OperationalError("gone away")
        return "here"

    await database_executor.run(connection_is_open)
    assert await database_executor.run(read) == "here"


async def test_write_is_never_retried():
    calls = []

    def write() -> None:
        calls.append(1)
        raise OperationalError("lost while committing")

    await database_executor.run(connection_is_open)
    with pytest.raises(DatabaseDown):
        await database_executor.run_to_end(write)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("fault", "is_logged"),
    [
        (TurnDiscarded(), []),
        (DatabaseDown(), []),
        (ValueError(), ["a write of a cancelled request failed"]),
    ],
)
async def test_abandoned_write_logs_only_internal_errors(fault, is_logged, caplog):
    has_begun, is_left = threading.Event(), threading.Event()
    # Let abandoned writes of other tests log first.
    gc.collect()
    caplog.clear()

    def fail():
        has_begun.set()
        is_left.wait(60)
        raise fault

    caller = asyncio.create_task(database_executor.run_to_end(fail))
    await asyncio.to_thread(has_begun.wait, 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    is_left.set()
    await database_executor.wait_for_writes()
    await asyncio.sleep(0)
    gc.collect()
    expected = [
        each
        for each in caplog.records
        if each.name in ("asyncio", "database.database_executor")
    ]
    assert [record.getMessage() for record in expected] == is_logged


async def test_wait_for_writes_ignores_other_event_loops():
    has_begun, is_over = threading.Event(), threading.Event()

    def write():
        has_begun.set()
        is_over.wait(60)

    def elsewhere():
        asyncio.run(database_executor.run_to_end(write))

    other = threading.Thread(target=elsewhere)
    other.start()
    await asyncio.to_thread(has_begun.wait, 60)
    async with asyncio.timeout(60):
        await database_executor.wait_for_writes()
    assert not is_over.is_set()
    is_over.set()
    await asyncio.to_thread(other.join, 60)


async def test_internal_error_is_not_a_database_error():
    with pytest.raises(ZeroDivisionError):
        await database_executor.run(lambda: 1 / 0)


def connection_is_open() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return True


async def test_missing_tables_are_database_down():
    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")

    with pytest.raises(DatabaseDown):
        await database_executor.run(read)


@pytest.mark.skipif(not ON_SQLITE, reason="SQLite's own settings")
class TestSqlite:
    async def test_executor_uses_wal_and_busy_timeout(self):
        def pragma(name: str) -> object:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA {name}")
                return cursor.fetchone()[0]

        assert await database_executor.run(pragma, "journal_mode") == "wal"
        assert await database_executor.run(pragma, "busy_timeout") == 5000
        assert await database_executor.run(pragma, "synchronous") == 1

    def test_transactions_are_immediate(self):
        assert settings.DATABASES["default"]["OPTIONS"]["transaction_mode"] == (
            "IMMEDIATE"
        )

    def test_locked_database_is_503_after_the_timeout(self, server, user):
        with ExecutorWaits(50), LockedConnection():
            assert refused(server, body(user), 503)["code"] == "database_unavailable"
        assert stored(user) == []

    def test_briefly_locked_database_is_waited_for(self, server, client, user):
        with ExecutorWaits(60_000):
            lock = LockedConnection()
            lock.__enter__()
            release = threading.Timer(0.2, lambda: lock.__exit__(None, None, None))
            release.start()
            ask(client, user)
            release.join()
        assert len(stored(user)) == 2


class LockedConnection:
    """Holds SQLite's write lock, like another process."""

    def __enter__(self) -> None:
        name = connection.settings_dict["NAME"]
        self._other = sqlite3.connect(name, check_same_thread=False)
        self._other.execute("BEGIN IMMEDIATE")

    def __exit__(self, *args: object) -> None:
        self._other.rollback()
        self._other.close()


class ExecutorWaits:
    """Sets the lock timeout of the executor's threads."""

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def _set(self, milliseconds: int) -> None:
        def apply() -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")

        database_executor._executor.submit(apply).result()

    def __enter__(self) -> None:
        self._set(self._milliseconds)

    def __exit__(self, *args: object) -> None:
        self._set(5000)
