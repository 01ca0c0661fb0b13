"""Read the SQLite database of the Rust version: batches of rows, and their values."""

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from core.errors import CoulisseError
from core.validation.storable_values import UNSTORABLE
from database import rust_database
from imports.errors import SourceUnreadable
from imports.report import Report, batch

BATCH_SIZE = 500
"""Rows in memory at a time."""
MAX_VALUE_LENGTH = 4_000_000
"""Characters or bytes of a value; a longer one is read as NULL."""
MAX_SECONDS = 253_402_300_799
"""The end of the year 9999."""
ROWID = "rowid"

Row = Mapping[str, Any]
T = TypeVar("T")


class RowDamaged(Exception):
    """A value of a row is missing or not what the column holds."""


class Table(NamedTuple):
    """A table to import."""

    name: str
    kind: str
    """What the report calls its rows: a plural noun."""
    columns: Sequence[str]


class SourceDatabase:
    """A database that is open for reading, with the report of its import."""

    def __init__(self, path: Path, report: Report) -> None:
        if not path.is_file():
            raise SourceUnreadable(
                f"{path} does not exist: name the state directory of the Rust version "
                "with --state; it is .coulisse beside its coulisse.yaml"
            )
        if not rust_database.is_rust_database(path):
            raise SourceUnreadable(
                f"{path} is not a database of the Rust version, or cannot be read"
            )
        self.report = report
        self._database = rust_database.open_readonly(path)
        self._database.row_factory = sqlite3.Row
        # Invalid UTF-8 would end the query.
        self._database.text_factory = lambda data: data.decode(errors="replace")
        self.tables = rust_database.table_names(self._database)

    def close(self) -> None:
        self._database.close()

    def count(self, table: str) -> int:
        """Return the number of rows; 0 without the table."""
        if table not in self.tables:
            return 0
        query = f"SELECT count(*) FROM {table}"  # noqa: S608  our own names
        (number,) = self._database.execute(query).fetchone()
        return int(number)

    def users(self, table: str) -> Iterator[object]:
        """Yield each user of a table once, as stored."""
        if table not in self.tables:
            return
        query = f"SELECT DISTINCT user_id FROM {table}"  # noqa: S608  our own names
        yield from (row["user_id"] for row in self._database.execute(query))

    def query(self, query: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        yield from self._database.execute(query, values)

    def import_rows(
        self, table: Table, read: Callable[[Row], T], write: Callable[[list[T]], None]
    ) -> None:
        """Read a table, and write each batch in a transaction; skip damaged rows."""
        for rows in self.batches(table):
            values = list(self.read_rows(table, rows, read))
            with batch(self.report):
                write(values)

    def read_rows(
        self, table: Table, rows: Iterable[Row], read: Callable[[Row], T]
    ) -> Iterator[T]:
        """Yield what `read` returns; skip rows for which it raises `RowDamaged`,
        `CoulisseError` or `OSError`."""
        for row in rows:
            try:
                yield read(row)
            except (RowDamaged, CoulisseError, OSError) as exc:
                self.report.skip(table.kind, f"row {row[ROWID]}", str(exc))

    def batches(
        self, table: Table, where: str = "1", values: Sequence[Any] = ()
    ) -> Iterator[list[Row]]:
        """Yield rows in the order of their insertion; a missing column is NULL.

        Where SQLite cannot read the table, the rest of it is skipped.
        """
        name, kind, _ = table
        if name not in self.tables:
            self.report.note(f"no {kind}: the database has no table '{name}'")
            return
        selected = ", ".join(self._select(table))
        query = (
            f"SELECT {ROWID}, {selected} FROM {name} WHERE {where} AND {ROWID} > ? "  # noqa: S608
            f"ORDER BY {ROWID} LIMIT {BATCH_SIZE}"
        )
        last = -1
        while True:
            try:
                rows = self._database.execute(query, [*values, last]).fetchall()
            except sqlite3.DatabaseError as exc:
                reason = f"SQLite cannot read the table '{name}' any further ({exc})"
                self.report.skip(kind, f"from row {last + 1}", reason)
                return
            if not rows:
                return
            last = rows[-1][ROWID]
            self.report.count(kind, read=len(rows))
            yield rows

    def _select(self, table: Table) -> Iterator[str]:
        info = self._database.execute(f"PRAGMA table_info({table.name})")
        known = {row["name"] for row in info}
        for name in table.columns:
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
