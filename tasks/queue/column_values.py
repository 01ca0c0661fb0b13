"""Database representation of the queue's column values, for plain SQL."""

from typing import Any

from django.db import connection, models

from tasks.models import Task


def to_column(name: str, value: Any) -> Any:
    """Return the database representation of a column's value."""
    field: models.Field[Any, Any] = getattr(Task, name).field
    return field.get_db_prep_value(value, connection)
