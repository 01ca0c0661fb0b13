"""Heartbeats: the table of running processes, and a database that cannot be written."""

import asyncio
import os
import uuid
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import openai
import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.db.models.functions import Now

from database import (
    database_executor,
    heartbeat_loop,
    heartbeats,
    running_processes,
)
from database.models import RunningProcess
from database.running_processes import STATE, Fleet, ProcessReport
from tests.gateway.calls import ask

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "postgresql": "SET default_transaction_read_only = on",
}


@pytest.fixture(autouse=True)
def _without_rows(monkeypatch):
    monkeypatch.setattr(heartbeat_loop, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(heartbeat_loop, "RETRY_SECONDS", 0.05)
    RunningProcess.objects.all().delete()
    yield
    RunningProcess.objects.all().delete()


def report() -> ProcessReport:
    return ProcessReport("web", "digest-1", "key-1")


def add_row(kind="worker", seconds_ago=0, digest="digest-1", **fields):
    return RunningProcess.objects.create(
        id=uuid.uuid4(),
        kind=kind,
        host="other",
        pid=7,
        version="0.1.0",
        config_digest=digest,
        started_at=Now(),
        seen_at=Now() - timedelta(seconds=seconds_ago),
        **fields,
    )


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # of another thread
            await asyncio.sleep(0.01)


@asynccontextmanager
async def read_only_database():
    """Let all connections of the executor be read-only, as of a standby."""

    def execute(connection, **_):
        with connection.cursor() as cursor:
            cursor.execute(READ_ONLY[connection.vendor])

    async def reconnect():
        ready = asyncio.Barrier(settings.COULISSE_DATABASE_THREADS)
        loop = asyncio.get_running_loop()

        def close():
            connection.close()
            asyncio.run_coroutine_threadsafe(ready.wait(), loop).result(20)

        count = settings.COULISSE_DATABASE_THREADS
        await asyncio.gather(*(database_executor.run(close) for _ in range(count)))

    connection_created.connect(execute)
    await reconnect()
    try:
        yield
    finally:
        connection_created.disconnect(execute)
        await reconnect()


async def test_row_exists_while_the_process_runs():
    async with heartbeat_loop.sent(report):
        row = await RunningProcess.objects.aget()
        assert (row.id, row.pid) == (running_processes.own_id(), os.getpid())
        assert (row.kind, row.config_digest, row.key_ids) == (
            "web",
            "digest-1",
            "key-1",
        )
        assert STATE.fleet == Fleet(webs=1, config_digests=["digest-1"])
    assert await RunningProcess.objects.acount() == 0


async def test_heartbeats_follow_and_keep_the_start():
    digests = iter(range(1000))
    async with heartbeat_loop.sent(lambda: ProcessReport("web", f"{next(digests)}")):
        first = await RunningProcess.objects.aget()
        async with asyncio.timeout(20):
            while (row := await RunningProcess.objects.aget()) == first:
                if row.seen_at > first.seen_at:
                    break
                await asyncio.sleep(0.01)
    assert row.started_at == first.started_at
    assert row.config_digest != first.config_digest


def test_fleet_has_processes_seen_lately():
    add_row("worker")
    add_row("worker", seconds_ago=11, digest="digest-2")
    add_row("beat", seconds_ago=13)
    fleet = heartbeats.beat(report())
    assert fleet == Fleet(
        webs=1, workers=2, beats=0, config_digests=["digest-1", "digest-2"]
    )
    assert fleet.warnings() == ["no_beat", "config_drift"]


def test_missing_processes_are_a_problem_after_the_start(monkeypatch):
    monkeypatch.setattr(STATE, "fleet", Fleet(webs=1))
    monkeypatch.setattr(running_processes, "SETTLED_AFTER_SECONDS", 1e9)
    assert STATE.warnings() == []
    monkeypatch.setattr(running_processes, "SETTLED_AFTER_SECONDS", -1)
    assert STATE.warnings() == ["no_worker", "no_beat"]


def test_rows_of_killed_processes_expire(database):
    killed, other = add_row(seconds_ago=3700), add_row(seconds_ago=3500)
    now = RunningProcess.objects.get(id=other.id).seen_at + timedelta(seconds=3500)
    assert [each.id for each in RunningProcess.objects.expired(now)] == [killed.id]


async def test_turns_are_refused_while_the_database_is_read_only(
    server, fake, client, user
):
    async with heartbeat_loop.sent(report):
        async with read_only_database():
            await until(lambda: STATE.problem)
            ready = await asyncio.to_thread(httpx2.get, f"{server}/health/ready")
            with pytest.raises(openai.InternalServerError) as refused:
                await asyncio.to_thread(ask, client.with_options(max_retries=0), user)
        assert ready.status_code == 503
        assert ready.json()["checks"]["database"] == "unavailable"
        assert refused.value.code == "database_unavailable"
        assert fake.requests == []
        await until(lambda: not STATE.problem)
        await asyncio.to_thread(ask, client, user)
    assert len(fake.requests) == 1


async def test_failed_write_is_noticed_before_the_next_heartbeat(monkeypatch):
    monkeypatch.setattr(heartbeat_loop, "HEARTBEAT_SECONDS", 600)
    async with heartbeat_loop.sent(report):
        async with read_only_database():
            with pytest.raises(database_executor.DatabaseDown):
                await database_executor.run_to_end(add_row)
            assert STATE.find_problem()
        await until(lambda: not STATE.problem)


async def test_full_disk_needs_space_to_be_well_again(monkeypatch):
    checked = []
    beat = heartbeats.beat
    monkeypatch.setattr(
        heartbeats,
        "beat",
        lambda *args, needs_space: (
            checked.append(needs_space),
            beat(*args, needs_space=needs_space),
        )[1],
    )
    cause = OSError()
    cause.sqlstate = "53100"

    def fail():
        raise OperationalError("could not extend file") from cause

    async with heartbeat_loop.sent(report):
        with pytest.raises(database_executor.DatabaseDown):
            await database_executor.run_to_end(fail)
        assert STATE.problem == "could not extend file"
        await until(lambda: not STATE.problem)
    assert True in checked


async def test_database_that_hangs_is_a_problem(monkeypatch):
    async with heartbeat_loop.sent(report):
        monkeypatch.setattr(running_processes, "GONE_AFTER_SECONDS", -1)
        assert STATE.find_problem().startswith("no row could be stored for")
    assert STATE.find_problem() == ""


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL finds out itself")
def test_sqlite_needs_free_space(monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeats, "MIN_FREE_BYTES", 2**62)
    file = tmp_path / "db.sqlite3"
    file.touch()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    with pytest.raises(OperationalError, match="is full"):
        heartbeats.beat(report())


async def test_error_in_a_heartbeat_does_not_end_the_others(monkeypatch):
    beat = heartbeats.beat
    errors = iter([RuntimeError("bug")])

    def fail_once(*args, **kwargs):
        for error in errors:
            raise error
        return beat(*args, **kwargs)

    async with heartbeat_loop.sent(report):
        monkeypatch.setattr(heartbeats, "beat", fail_once)
        await until(lambda: STATE.problem == "bug")
        await until(lambda: not STATE.problem)
