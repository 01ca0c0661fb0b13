"""Inserts rows in bulk.

For a million messages, the ORM takes a minute and a COPY a few seconds.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection, models
from django.db.models import Max

BATCH_SIZE = 20_000
"""Rows that are collected before they are written."""
ID_BLOCK = 1_000
"""Ids that are reserved together."""

Row = tuple[Any, ...]


class TableRows:
    """The new rows of one table."""

    def __init__(self, model: type[models.Model]) -> None:
        fields = [each for each in model._meta.concrete_fields if not each.generated]
        self._name = model._meta.db_table
        self._auto_field = next(
            (f for f in fields if isinstance(f, models.AutoField)), None
        )
        self._fields = {each.attname: _column(each) for each in fields}
        self._rows: dict[bool, list[Row]] = {True: [], False: []}
        """Rows with an id (True), and rows whose id the database assigns (False)."""

    def add(self, values: dict[str, Any]) -> None:
        """Add a row; other columns have the model's defaults."""
        has_id = self._auto_field is None or self._auto_field.attname in values
        self._rows[has_id].append(
            tuple(
                prepare(values[name]) if name in values else default()
                for name, (prepare, default) in self._columns(has_id).items()
            )
        )

    def write(self) -> None:
        """Insert the rows."""
        for has_id, rows in self._rows.items():
            if rows:
                _write(self._name, [*self._columns(has_id)], rows)
            rows.clear()

    def _columns(self, has_id: bool) -> dict[str, Any]:
        if has_id or self._auto_field is None:
            return self._fields
        auto_name = self._auto_field.attname
        return {name: each for name, each in self._fields.items() if name != auto_name}


class BulkInsert:
    """Collects rows of any tables and inserts them in bulk."""

    def __init__(self) -> None:
        self._tables: dict[type[models.Model], TableRows] = {}
        self._ids: dict[type[models.Model], list[int]] = {}
        self._highest: dict[type[models.Model], int] = {}
        self._waiting = 0

    def add(self, model: type[models.Model], /, **values: Any) -> None:
        """Add a row to a table."""
        table = self._tables.get(model)
        if table is None:
            table = self._tables[model] = TableRows(model)
        table.add(values)
        self._waiting += 1

    def new_id(self, model: type[models.Model]) -> int:
        """Return an unused id of a table, which no other row will get."""
        ids = self._ids.setdefault(model, [])
        if not ids:
            block = _reserve(model, ID_BLOCK, above=self._highest.get(model, 0))
            self._highest[model] = block[-1]
            ids += reversed(block)
        return ids.pop()

    def write_if_many(self) -> None:
        """Insert the collected rows if they fill a batch."""
        if self._waiting >= BATCH_SIZE:
            self.write()

    def write(self) -> None:
        """Insert the collected rows; the end of the transaction checks the keys."""
        for table in self._tables.values():
            table.write()
        self._waiting = 0


def _reserve(model: type[models.Model], count: int, *, above: int = 0) -> range:
    """Reserve ids.

    On SQLite they are above `above`, and valid until another connection writes.
    """
    if connection.vendor == "sqlite":
        last = model._default_manager.aggregate(last=Max("pk"))["last"] or 0
        first = max(last, above) + 1
        return range(first, first + count)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(name, nextval(name) + %s) "
            "FROM (SELECT pg_get_serial_sequence(%s, %s) AS name) AS sequence",
            [count, model._meta.db_table, "id"],
        )
        last = cursor.fetchone()[0]
    return range(last - count, last)


def _write(table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join(["%s"] * len(columns))
            cursor.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608
                rows,
            )
            return
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _column(field: Any) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """Return a function that prepares a column's value, and one that returns its
    default."""
    prepare = _preparer(field)
    if field.has_db_default():
        return prepare, lambda: field.db_default
    if field.has_default() or (field.empty_strings_allowed and not field.null):
        return prepare, lambda: prepare(field.get_default())
    return prepare, lambda: None


def _preparer(field: Any) -> Callable[[Any], Any]:
    if isinstance(field, models.ForeignKey):
        field = field.target_field
    if isinstance(field, models.JSONField):
        return lambda value: None if value is None else json.dumps(value)
    if connection.vendor == "postgresql":
        return lambda value: value
    if isinstance(field, models.UUIDField):
        return lambda value: None if value is None else value.hex
    if isinstance(field, models.DateTimeField):
        return connection.ops.adapt_datetimefield_value
    return lambda value: value
