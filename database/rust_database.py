"""Recognise and open SQLite databases of Coulisse's earlier version, written in Rust.

They have the name and the place of ours, `.coulisse/coulisse-memory.db`.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from core.errors import Invalid

TABLES = {"coulisse_schema_versions", "memories", "messages"}
"""One of them is in each of its versions."""
OWN_TABLE = "django_migrations"
IN_USE = "mode=ro"
AT_REST = "mode=ro&immutable=1"
"""Creates no files, and does not read the write-ahead log."""


class RustDatabaseFound(Invalid):
    """The database belongs to Coulisse's earlier version, written in Rust."""


def refuse() -> None:
    """Raise `RustDatabaseFound` if our SQLite file is such a database."""
    database: dict[str, Any] = settings.DATABASES["default"]
    path = Path(str(database["NAME"]))
    if "sqlite" not in database["ENGINE"] or not is_rust_database(path):
        return
    state = path.parent
    raise RustDatabaseFound(
        f"{path} is the database of Coulisse's earlier version, written in Rust: stop "
        f"that server, move the directory (`mv {state} {state}-rust`), then run "
        f"`coulisse migrate` and `coulisse import coulisse --state {state}-rust`"
    )


def is_rust_database(path: Path) -> bool:
    """Return whether a file is such a database; False if it cannot be read."""
    # Without its log first: to read the log, SQLite may create a file beside it.
    for read_only in (AT_REST, IN_USE):
        with suppress(sqlite3.Error), closing(_open(path, read_only)) as database:
            if tables := table_names(database):
                return bool(tables & TABLES) and OWN_TABLE not in tables
    return False


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open a database with what its log has; raises `sqlite3.Error`."""
    log = path.with_name(f"{path.name}-wal")
    is_at_rest = not log.exists() or not log.stat().st_size
    return _open(path, AT_REST if is_at_rest else IN_USE)


def _open(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def table_names(database: sqlite3.Connection) -> set[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return {name for (name,) in database.execute(query)}
