"""Recognise and open SQLite databases of Coulisse's earlier version, written in Rust.

They have the name and the place of ours, `.coulisse/coulisse-memory.db`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from core.errors import Invalid

TABLES = {"coulisse_schema_versions", "memories", "messages"}
"""One of them is in each of its versions."""
OWN_TABLE = "django_migrations"


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
    try:
        with closing(open_readonly(path)) as database:
            tables = table_names(database)
    except sqlite3.Error:
        return False
    return bool(tables & TABLES) and OWN_TABLE not in tables


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open a database without changes to its directory; raises `sqlite3.Error`."""
    wal = path.with_name(f"{path.name}-wal")
    # Otherwise SQLite would create `-wal` and `-shm`.
    is_at_rest = not wal.exists() or not wal.stat().st_size
    options = "mode=ro&immutable=1" if is_at_rest else "mode=ro"
    uri = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def table_names(database: sqlite3.Connection) -> set[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return {name for (name,) in database.execute(query)}
