"""The tables' migrations: which are missing, and how long they may wait for locks."""

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import DatabaseError, OperationalError

from database.errors import PgvectorMissing

LIMITS_SQL = (
    "SELECT set_config('lock_timeout', %s, true), "
    "set_config('statement_timeout', '0', true)"
)
LOCK_ERRORS = ("55P03", "40P01")
"""PostgreSQL's codes of a lock that took too long, and of a deadlock."""

MAX_NAMED = 5


def is_lock_error(error: OperationalError) -> bool:
    """Return whether a statement waited too long for others, so that it may be tried
    again."""
    return getattr(error.__cause__, "sqlstate", None) in LOCK_ERRORS


def create_pgvector() -> None:
    """Create the extension that the tables need, on PostgreSQL.

    Raises `PgvectorMissing` where it is not installed, or the role may not.
    """
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        # A role without rights may not even ask for what exists.
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
        if cursor.fetchone():
            return
        try:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except DatabaseError as exc:
            raise PgvectorMissing(str(exc).partition("\n")[0]) from exc


def missing_migrations() -> list[str]:
    """Return the migrations that this version has and the database lacks.

    It compares names first, because to import all migrations takes each start a
    quarter of a second.
    """
    applied = MigrationRecorder(connection).applied_migrations()
    if all(key in applied for key in _known_migrations()):
        return []
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def describe(migrations: list[str]) -> str:
    """Return a phrase such as `2 migrations (access.0002_a, memory.0003_b)`."""
    count = len(migrations)
    plural = "migration" if count == 1 else "migrations"
    names = ", ".join(migrations[:MAX_NAMED]) + (" …" if count > MAX_NAMED else "")
    return f"{count} {plural} ({names})"


def _known_migrations() -> Iterator[tuple[str, str]]:
    for app in apps.get_app_configs():
        for found in pkgutil.iter_modules([str(Path(app.path, "migrations"))]):
            if found.name[0] not in "_~":
                yield app.label, found.name


@contextmanager
def limited_waits(seconds: float) -> Iterator[None]:
    """Let each migration wait so long for a lock, on PostgreSQL.

    A statement that waits for a table stops all that come after it, readers included.
    Set within each transaction, as a pooler may run the next one elsewhere.
    """
    if connection.vendor != "postgresql":
        yield
        return
    before = connection.SchemaEditorClass

    class LimitedSchemaEditor(before):  # type: ignore[misc, valid-type]
        def __enter__(self) -> Any:
            entered = super().__enter__()
            if self.atomic_migration:
                with self.connection.cursor() as cursor:
                    cursor.execute(LIMITS_SQL, [f"{seconds:g}s"])
            return entered

    connection.SchemaEditorClass = LimitedSchemaEditor
    try:
        yield
    finally:
        connection.SchemaEditorClass = before
