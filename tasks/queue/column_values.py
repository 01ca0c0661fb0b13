"""Values of the queue's columns as the database has them, for plain SQL."""

from typing import Any

from django.db import connection, models

from tasks.models import Task


def to_column(name: str, value: Any) -> Any:
    """Return a value of a column as the database has it."""
    field: models.Field[Any, Any] = getattr(Task, name).field
    return field.get_db_prep_value(value, connection)
