"""Values of plain SQL, for reads that every turn makes.

The ORM compiles each query again: reading ten facts takes 1,045 µs on SQLite and
1,160 µs of CPU time on PostgreSQL, plain SQL 123 µs and 278 µs (measured 1,000 times
each), and a turn's whole context 460 µs.
"""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.base import ModelState

ModelType = TypeVar("ModelType", bound=models.Model)


def fetch_rows(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetch_of_passages(
    query: str, user_id: uuid.UUID, passage_ids: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query that ends in `IN` with the ids of passages."""
    if not passage_ids:
        return []
    marks = ", ".join(["%s"] * len(passage_ids))
    owner = to_sql_id(user_id)
    return fetch_rows(f"{query} ({marks})", [owner, owner, *passage_ids])


def to_sql_id(value: uuid.UUID) -> Any:
    return value if _has_native_types() else value.hex


def to_sql_time(at: datetime) -> Any:
    """Return an instant, given in UTC."""
    return at if _has_native_types() else str(at.replace(tzinfo=None))


@cache
def _has_native_types() -> bool:
    """Whether the database has types of ids and instants; SQLite stores texts."""
    return connection.features.has_native_uuid_field


def read_id(value: Any) -> uuid.UUID:
    """Return the id of a value; SQLite stores hexadecimal digits."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def read_time(value: datetime) -> datetime:
    """Return an instant in UTC, which SQLite omits."""
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


class RowReader(Generic[ModelType]):
    """Makes objects of a model from rows of plain SQL."""

    def __init__(self, model: type[ModelType]) -> None:
        fields = model._meta.concrete_fields
        self._model = model
        self._names = [field.attname for field in fields]
        self._readers = [
            (number, reader)
            for number, field in enumerate(fields)
            if (reader := READERS.get(type(getattr(field, "target_field", field))))
        ]

    def columns(self, alias: str) -> str:
        """Return the columns to select, in the order that `read` expects."""
        return ", ".join(f"{alias}.{name}" for name in self._names)

    def read(self, row: Sequence[Any]) -> ModelType:
        values = list(row)
        for number, reader in self._readers:
            if values[number] is not None:
                values[number] = reader(values[number])
        # As `from_db` does, without the signals and the loop of `Model.__init__`: 6 µs
        # for a fact instead of 9, and a turn reads twenty.
        stored = self._model.__new__(self._model)
        stored.__dict__.update(zip(self._names, values, strict=True))
        stored._state = ModelState()
        stored._state.adding, stored._state.db = False, DEFAULT_DB_ALIAS
        return stored


READERS: dict[type, Callable[[Any], Any]] = {
    models.BooleanField: bool,
    models.DateTimeField: read_time,
    models.UUIDField: read_id,
}
