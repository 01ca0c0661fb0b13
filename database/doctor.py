"""The check of the database by `coulisse doctor`."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from django.core import checks
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.template.defaultfilters import filesizeformat

from core.errors import CoulisseError
from core.runtime import shared_clock
from database import rust_database, schema

UNREACHABLE = {
    "postgresql": "check DATABASE_URL, and that the database server runs and accepts "
    "connections from this machine",
    "sqlite": "check the rights of the file and of its directory, and that the file is "
    "not damaged (`sqlite3 FILE 'PRAGMA quick_check'`)",
}
MAX_SKEW_SECONDS = 5.0
MIGRATE = "run `coulisse migrate`; `start` does this, too"
UNWRITABLE = (
    "check the rights of the file and of its directory, the free space, and that "
    "DATABASE_URL names the primary, not a replica"
)


def check_database(_: Any) -> Iterator[checks.CheckMessage]:
    """Check that the database can be reached and written, and has all tables."""
    path = Path(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite" and not path.exists():
        yield checks.Warning(f"{path} does not exist yet", hint=MIGRATE)
        return
    try:
        rust_database.refuse()
        connection.ensure_connection()
        yield checks.Info(_describe())
    except CoulisseError as exc:
        yield checks.Error(str(exc))
        return
    except DatabaseError as exc:
        yield checks.Error(
            f"the database cannot be used: {exc}", hint=UNREACHABLE[connection.vendor]
        )
        return
    yield from _check_migrations()
    yield from _check_writing()
    if connection.vendor == "postgresql":
        yield from _check_postgresql()


def _describe() -> str:
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        path = Path(settings["NAME"])
        files = [path, path.with_name(f"{path.name}-wal")]
        size = sum(file.stat().st_size for file in files if file.exists())
        version, place = _fetch("SELECT sqlite_version()"), str(path)
    else:
        version = _fetch("SHOW server_version")
        size = _fetch("SELECT pg_database_size(current_database())")
        host = settings["HOST"] or "the local socket"
        place = f"'{settings['NAME']}' at {host}"
    shown = filesizeformat(size).replace("\xa0", " ")
    return f"{connection.display_name} {version}, {shown}, {place}"


def _check_migrations() -> Iterator[checks.CheckMessage]:
    executor = MigrationExecutor(connection)
    if missing := schema.missing_migrations():
        yield checks.Error(f"it lacks {schema.describe(missing)}", hint=MIGRATE)
    known = executor.loader.disk_migrations or {}
    ours = {app for app, _ in known}
    applied = executor.loader.applied_migrations or {}
    for app, name in sorted(applied.keys() - known.keys()):
        if app in ours and not _is_replaced(executor, app, name):
            yield checks.Error(
                f"the database has the migration {app}.{name}, which this version "
                "lacks: a newer version has used it",
                hint="update Coulisse, or restore a backup of this version",
            )


def _is_replaced(executor: MigrationExecutor, app: str, name: str) -> bool:
    migrations = (executor.loader.disk_migrations or {}).values()
    return any((app, name) in migration.replaces for migration in migrations)


def _check_writing() -> Iterator[checks.CheckMessage]:
    """Write a row, and roll it back."""
    recorder = MigrationRecorder(connection)
    if not recorder.has_table():
        return  # The missing migrations are reported.
    try:
        with transaction.atomic():
            recorder.record_applied("doctor", "write_test")
            transaction.set_rollback(True)
    except DatabaseError as exc:
        yield checks.Error(f"the database cannot be written: {exc}", hint=UNWRITABLE)


def _check_postgresql() -> Iterator[checks.CheckMessage]:
    version = _fetch("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if version is None:
        yield checks.Error(
            "the extension pgvector is missing, which searches of memory need",
            hint="install pgvector on the database server, then `coulisse migrate`; "
            "a role without rights needs `CREATE EXTENSION vector` by a superuser",
        )
    else:
        yield checks.Info(f"pgvector {version}")
    skew = shared_clock.skew_seconds()
    if abs(skew) > MAX_SKEW_SECONDS:
        side = "behind" if skew > 0 else "ahead of"
        yield checks.Warning(
            f"the clock of this machine is {abs(skew):.0f} s {side} the database's, "
            "which decides when tasks run",
            hint="synchronize it (NTP), for logs, limits and tokens",
        )
    used = int(_fetch("SELECT count(*) FROM pg_stat_activity"))
    limit = int(_fetch("SHOW max_connections"))
    if used > 0.9 * limit:
        yield checks.Warning(
            f"{used} of {limit} connections of the database are in use",
            hint="raise its max_connections, or lower COULISSE_DATABASE_THREADS",
        )


def _fetch(sql: str) -> Any:
    """Return the first value of the first row; None without a row."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
    return row and row[0]
