"""Read the SQLite database of the Rust version: batches of rows, and their values."""

import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.validation.storable_values import UNSTORABLE
from database import rust_database
from imports.errors import SourceUnreadable
from imports.report import Report

BATCH_SIZE = 500
"""Rows in memory at a time."""
MAX_VALUE_LENGTH = 4_000_000
"""Characters or bytes of a value; a longer one is read as NULL."""
MAX_SECONDS = 253_402_300_799
"""The end of the year 9999."""
ROWID = "rowid"

Row = Mapping[str, Any]


class RowDamaged(Exception):
    """A value of a row is missing or not what the column holds."""


class SourceDatabase:
    """A database that is open for reading."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SourceUnreadable(
                f"{path} does not exist: name the state directory of the Rust version "
                "with --state; it is .coulisse beside its coulisse.yaml"
            )
        if not rust_database.is_rust_database(path):
            raise SourceUnreadable(
                f"{path} is not a database of the Rust version, or cannot be read"
            )
        self._database = rust_database.open_readonly(path)
        self._database.row_factory = sqlite3.Row
        # Invalid UTF-8 would end the query.
        self._database.text_factory = lambda data: data.decode(errors="replace")
        self.tables = rust_database.table_names(self._database)

    def close(self) -> None:
        self._database.close()

    def has(self, table: str, kind: str, report: Report) -> bool:
        """Return whether a table exists; note it in the report if it does not."""
        if table not in self.tables:
            report.note(f"no {kind}: the database has no table '{table}'")
        return table in self.tables

    def count(self, table: str) -> int:
        """Return the number of rows; 0 without the table."""
        if table not in self.tables:
            return 0
        query = f"SELECT count(*) FROM {table}"  # noqa: S608  our own names
        (number,) = self._database.execute(query).fetchone()
        return int(number)

    def users(self, table: str) -> Iterator[object]:
        """Yield each user of a table once, as stored."""
        query = f"SELECT DISTINCT user_id FROM {table}"  # noqa: S608  our own names
        return (row["user_id"] for row in self._database.execute(query))

    def query(self, query: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        yield from self._database.execute(query, values)

    def batches(
        self,
        table: str,
        columns: Sequence[str],
        *,
        kind: str,
        report: Report,
        where: str = "1",
        values: Sequence[Any] = (),
    ) -> Iterator[list[Row]]:
        """Yield rows in the order of their insertion; a missing column is NULL.

        Where SQLite cannot read the table, the rest of it is skipped.
        """
        selected = ", ".join(self._select(table, columns))
        query = (
            f"SELECT {ROWID}, {selected} FROM {table} WHERE {where} AND {ROWID} > ? "  # noqa: S608
            f"ORDER BY {ROWID} LIMIT {BATCH_SIZE}"
        )
        last = -1
        while True:
            try:
                rows = self._database.execute(query, [*values, last]).fetchall()
            except sqlite3.DatabaseError as exc:
                reason = f"SQLite cannot read the table '{table}' any further ({exc})"
                report.skip(kind, f"from row {last + 1}", reason)
                return
            if not rows:
                return
            last = rows[-1][ROWID]
            report.count(kind, read=len(rows))
            yield rows

    def _select(self, table: str, columns: Sequence[str]) -> Iterator[str]:
        info = self._database.execute(f"PRAGMA table_info({table})")
        known = {row["name"] for row in info}
        for name in columns:
            if name not in known:
                yield f"NULL AS {name}"
            else:
                yield f"iif(length({name}) > {MAX_VALUE_LENGTH}, NULL, {name}) {name}"


def read_text(row: Row, name: str) -> str:
    """Return a text that can be stored; raises `RowDamaged`."""
    value = row[name]
    if not isinstance(value, str):
        raise RowDamaged(f"'{name}' is missing, too long or not a text")
    return UNSTORABLE.sub("\ufffd", value)


def read_optional_text(row: Row, name: str) -> str:
    """Return a text, "" for NULL."""
    return "" if row[name] is None else read_text(row, name)


def read_uuid(row: Row, name: str) -> uuid.UUID:
    try:
        return uuid.UUID(read_text(row, name))
    except ValueError:
        raise RowDamaged(f"'{name}' is not a UUID") from None


def read_time(row: Row, name: str) -> datetime:
    """Return a time, which is stored in seconds since 1970."""
    value = row[name]
    if not isinstance(value, int) or not 0 <= value <= MAX_SECONDS:
        raise RowDamaged(f"'{name}' is not a time in seconds since 1970")
    return datetime.fromtimestamp(value, UTC)


def row_name(row: Row) -> str:
    """Return what the report calls a row."""
    return f"row {row[ROWID]}"
