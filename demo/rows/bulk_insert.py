"""The base of the modules that build rows, and the rows' insertion in bulk."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models
from django.db.models import Max

from demo.sample_users import SampleUser
from demo.simulated_turns import AgentSimulator
from demo.traffic_pattern import TrafficPattern

BATCH_SIZE = 20_000
"""Rows that are collected before they are written."""
ID_BLOCK = 1_000
"""Ids that are reserved together."""


class BulkInsert:
    """Collects rows of any tables and inserts them in bulk.

    For a million messages, the ORM takes minutes and a COPY a few seconds.
    """

    def __init__(self) -> None:
        self._rows: dict[type[models.Model], list[dict[str, Any]]] = defaultdict(list)
        self._ids: dict[type[models.Model], list[int]] = defaultdict(list)
        self._highest: dict[type[models.Model], int] = {}
        self._waiting = 0

    def add(self, model: type[models.Model], /, **values: Any) -> None:
        """Add a row to a table; other columns have the model's defaults."""
        self._rows[model].append(values)
        self._waiting += 1

    def new_id(self, model: type[models.Model]) -> int:
        """Return an unused id of a table, which no other row will get."""
        ids = self._ids[model]
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
        for model, rows in self._rows.items():
            _insert(model, rows)
        self._rows.clear()
        self._waiting = 0


def _reserve(model: type[models.Model], count: int, *, above: int = 0) -> range:
    """Reserve ids.

    On SQLite they are above `above`, and valid until another connection writes.
    """
    if connection.vendor == "sqlite":
        last = model._base_manager.aggregate(last=Max("pk"))["last"] or 0
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


def _insert(model: type[models.Model], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows of a table; all have an id, or the database assigns all."""
    columns = {
        field.attname: _column(field)
        for field in model._meta.concrete_fields
        if not field.generated
        and (field.attname in rows[0] or not isinstance(field, models.AutoField))
    }
    names = ", ".join(f'"{name}"' for name in columns)
    values = (
        tuple(
            prepare(row[name]) if name in row else default()
            for name, (prepare, default) in columns.items()
        )
        for row in rows
    )
    table = f"{model._meta.db_table} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join(["%s"] * len(columns))
            insert = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
            cursor.executemany(insert, [*values])
            return
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for each in values:
                copy.write_row(each)


def _column(field: Any) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """Return functions that prepare a column's value, and that return its default."""
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


@dataclass
class DemoRows:
    """Rows of the demo, and what they are made of."""

    _inserts: BulkInsert
    _simulator: AgentSimulator
    _traffic: TrafficPattern
    _users: list[SampleUser]
    _rng: random.Random


def columns_of(source: object, *names: str) -> dict[str, Any]:
    """Return the attributes with these names."""
    return {name: getattr(source, name) for name in names}
