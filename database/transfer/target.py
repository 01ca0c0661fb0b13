"""The target of a transfer: what it must be, and its tables before and after."""

from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DatabaseError, connection, transaction

from database.errors import TransferRefused
from database.transfer import databases, rows
from database.transfer.databases import SOURCE, TARGET
from database.transfer.progress import StepProgress, TransferProgress

FROM = "from"
PREPARED = "prepared"

FILLED_BY_MIGRATE = {
    "auth_group",
    "auth_group_permissions",
    "auth_permission",
    "django_content_type",
}
"""Their rows on the target are replaced, so that all have the keys of the source."""
PGVECTOR = (
    "the extension pgvector is missing on {target}: install it on the database server "
    "and let a superuser run `CREATE EXTENSION vector` in this database"
)


def check(*, may_have_rows: bool) -> None:
    """Raise `TransferRefused` unless the target can take all rows; leave no trace.

    It may have rows of an unfinished transfer.
    """
    path = Path(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite" and not path.parent.is_dir():
        raise TransferRefused(f"the directory {path.parent} does not exist")
    is_new = connection.vendor == "sqlite" and not path.exists()
    try:
        databases.connect(TARGET)
        if connection.vendor == "postgresql":
            _check_postgresql()
        _check_rights()
        if not may_have_rows and not TransferProgress(TARGET).exists():
            _refuse_rows()
    finally:
        if is_new:
            connection.close()
            _delete_sqlite(path)


def _check_rights() -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("CREATE TABLE coulisse_trial (number integer)")
            transaction.set_rollback(True)
    except DatabaseError as exc:
        raise TransferRefused(
            f"cannot create tables on {databases.describe(TARGET)}: {exc}".strip()
        ) from exc


def _delete_sqlite(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _check_postgresql() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        if (encoding := cursor.fetchone()[0]) != "UTF8":
            raise TransferRefused(
                f"{databases.describe(TARGET)} has the encoding {encoding}: create it "
                "with `createdb -E UTF8 -T template0`"
            )
        try:
            with transaction.atomic():
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
                transaction.set_rollback(True)
        except DatabaseError as exc:
            text = PGVECTOR.format(target=databases.describe(TARGET))
            raise TransferRefused(f"{text} ({exc})".replace("\n", " ")) from exc


def _refuse_rows() -> None:
    """Raise `TransferRefused` if the target has rows of any of our tables."""
    existing = set(connection.introspection.table_names())
    tables = {model._meta.db_table for model in rows.list_models()}
    with connection.cursor() as cursor:
        for table in sorted(tables & existing - FILLED_BY_MIGRATE):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT 1 FROM {name} LIMIT 1")  # noqa: S608
            if cursor.fetchone():
                raise TransferRefused(
                    f"{databases.describe(TARGET)} is not empty: {table} has rows. Use "
                    "an empty database; --verify compares the rows with the source's"
                )


def prepare() -> None:
    """Give a checked target its tables, without rows, unless an earlier run has.

    Raises `TransferRefused` if it has a part of another transfer.
    """
    progress = TransferProgress(TARGET)
    source = databases.describe(SOURCE)
    if not progress.exists():
        if connection.vendor == "sqlite":
            Path(connection.settings_dict["NAME"]).chmod(0o600)
        progress.create()
        if TransferProgress(SOURCE).exists():
            progress.drop()
            raise TransferRefused(f"both databases are the same: {source}")
        progress.store(FROM, StepProgress(source))
    begun_from = progress.read(FROM).last_key
    if begun_from not in (None, source):
        raise TransferRefused(
            f"{databases.describe(TARGET)} has a part of the rows of {begun_from}: "
            "finish that move, or use an empty database"
        )
    if not progress.read(PREPARED).is_done:
        call_command("migrate", verbosity=0, interactive=False)
        with transaction.atomic():
            for model in reversed(rows.list_models()):
                manager: Any = rows.rows_of(model, TARGET)
                manager._raw_delete(TARGET)
            progress.store(PREPARED, StepProgress(is_done=True))


def finish() -> None:
    """Let PostgreSQL continue the numbering, and plan by the tables' real sizes."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for sql in connection.ops.sequence_reset_sql(
                no_style(), rows.list_models()
            ):
                cursor.execute(sql)
            cursor.execute("ANALYZE")
