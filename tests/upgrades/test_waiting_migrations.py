"""Migrations that wait for tables, and starts that wait for migrations."""

import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import OperationalError, connection, connections

from database import process_lock, schema
from processes.errors import StartFailed
from processes.management.commands import migrate
from processes.server import database_preparation

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]
only_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has no locks of tables"
)


class LockNotAvailable(Exception):
    sqlstate = "55P03"


def fail_with_lock_error(*_: object, **__: object) -> None:
    error = OperationalError("canceling statement due to lock timeout\nCONTEXT: …")
    raise error from LockNotAvailable()


@pytest.fixture
def missing(monkeypatch) -> list[str]:
    """Migrations that a start finds missing."""
    names = ["access.0002_a", "memory.0002_b"]
    monkeypatch.setattr(schema, "missing_migrations", lambda: list(names))
    return names


def test_no_migration_is_missing():
    assert schema.missing_migrations() == []


def test_lock_is_held_by_one():
    name = f"test_{uuid.uuid4().hex}"
    waits = []
    with (
        process_lock.held(name, on_wait=lambda: waits.append("first")),
        process_lock.tried(name) as is_ours,
    ):
        assert not is_ours
    with process_lock.tried(name) as is_ours:
        assert is_ours
    assert waits == []


@only_postgresql
def test_lock_delays_no_other_statement():
    with (
        process_lock.held(f"test_{uuid.uuid4().hex}", on_wait=lambda: None),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "SELECT count(*), count(backend_xmin), count(backend_xid) "
            "FROM pg_stat_activity WHERE state = 'idle in transaction' "
            "AND datname = current_database()"
        )
        assert cursor.fetchone() == (1, 0, 0)


@only_postgresql
def test_migration_waits_briefly_for_a_table_in_use():
    reader = connections.create_connection("default")
    reader.set_autocommit(False)
    with reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM telemetry_turn")
    try:
        with (
            pytest.raises(OperationalError) as caught,
            schema.limited_waits(0.1),
            connection.schema_editor() as editor,
        ):
            editor.execute("LOCK TABLE telemetry_turn IN ACCESS EXCLUSIVE MODE")
        assert schema.is_lock_error(caught.value)
    finally:
        reader.close()
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_migration_is_tried_again(monkeypatch):
    calls = []

    def handle(*_: object, **__: object) -> None:
        calls.append(1)
        if len(calls) < 3:
            fail_with_lock_error()

    monkeypatch.setattr(DjangoMigrate, "handle", handle)
    monkeypatch.setattr(migrate.time, "sleep", lambda _: None)
    notes = StringIO()
    call_command("migrate", stderr=notes)
    assert len(calls) == 3
    assert notes.getvalue().count("lock timeout: next try in") == 2


def test_migration_gives_up(monkeypatch):
    monkeypatch.setattr(DjangoMigrate, "handle", fail_with_lock_error)
    monkeypatch.setattr(migrate.time, "sleep", lambda _: None)
    with pytest.raises(CommandError, match="pg_stat_activity"):
        call_command("migrate", stderr=StringIO())


def test_lock_timeout_is_positive():
    with pytest.raises(CommandError, match="--lock-timeout must be"):
        call_command("migrate", lock_timeout=0)


def test_start_without_migrations_ends(missing, settings, monkeypatch):
    settings.COULISSE_MIGRATE = False
    monkeypatch.setattr(database_preparation, "WAIT_SECONDS", -1)
    with pytest.raises(StartFailed, match=r"lacks 2 .*: run `coulisse migrate`"):
        database_preparation.prepare()


def test_start_goes_on_after_the_job(missing, settings, monkeypatch):
    settings.COULISSE_MIGRATE = False
    monkeypatch.setattr(database_preparation.time, "sleep", lambda _: missing.clear())
    database_preparation.prepare()
    assert missing == []


def test_start_migrates_only_what_is_missing(missing, monkeypatch):
    called = []
    monkeypatch.setattr(
        database_preparation, "call_command", lambda name, **_: called.append(name)
    )
    database_preparation.prepare()
    missing.clear()
    database_preparation.prepare()
    assert called == ["migrate"]
