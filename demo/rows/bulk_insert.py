"""Rows on their way into their tables, many at a time.

The ORM would take a minute for what a COPY does in seconds, and a million messages are
asked for.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection, models
from django.db.models import Max

AT_ONCE = 20_000
"""Rows that are gathered before all are written."""
BLOCK = 1_000
"""Ids that are taken from a sequence together."""

Row = tuple[Any, ...]


class TableRows:
    """One table, and the rows it is to get."""

    def __init__(self, model: type[models.Model]) -> None:
        fields = [each for each in model._meta.concrete_fields if each.column]
        self._name = model._meta.db_table
        self._own = next((f for f in fields if isinstance(f, models.AutoField)), None)
        self._fields = {each.attname: _column(each) for each in fields}
        self._rows: dict[bool, list[Row]] = {True: [], False: []}
        """Those that bring their id, and those that get one."""

    def add(self, values: dict[str, Any]) -> None:
        """Take a row; what it does not say is as the model says."""
        has_id = self._own is None or self._own.attname in values
        self._rows[has_id].append(
            tuple(
                prepare(values[name]) if name in values else default()
                for name, (prepare, default) in self._columns(has_id).items()
            )
        )

    def write(self) -> None:
        """Write what was taken."""
        for has_id, rows in self._rows.items():
            if rows:
                _write(self._name, [*self._columns(has_id)], rows)
            rows.clear()

    def _columns(self, has_id: bool) -> dict[str, Any]:
        if has_id or self._own is None:
            return self._fields
        own = self._own.attname
        return {name: each for name, each in self._fields.items() if name != own}


class BulkInsert:
    """Rows for any tables."""

    def __init__(self) -> None:
        self._tables: dict[type[models.Model], TableRows] = {}
        self._ids: dict[type[models.Model], list[int]] = {}
        self._highest: dict[type[models.Model], int] = {}
        self._waiting = 0

    def add(self, model: type[models.Model], /, **values: Any) -> None:
        """Take a row for a table."""
        table = self._tables.get(model)
        if table is None:
            table = self._tables[model] = TableRows(model)
        table.add(values)
        self._waiting += 1

    def new_id(self, model: type[models.Model]) -> int:
        """Return an id no row of a table has or will get."""
        ids = self._ids.setdefault(model, [])
        if not ids:
            block = _reserve(model, BLOCK, above=self._highest.get(model, 0))
            self._highest[model] = block[-1]
            ids += reversed(block)
        return ids.pop()

    def write_if_many(self) -> None:
        """Write all that waits, where it is enough."""
        if self._waiting >= AT_ONCE:
            self.write()

    def write(self) -> None:
        """Write all that waits, in the caller's transaction: keys are checked at its
        end."""
        for table in self._tables.values():
            table.write()
        self._waiting = 0


def _reserve(model: type[models.Model], count: int, *, above: int = 0) -> range:
    """Return so many ids that nobody else is given.

    On SQLite, above those reserved before, and as long as nobody else writes.
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
    """Return how a value of a column is prepared, and what it is when nobody says."""
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
