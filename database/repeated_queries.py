"""One query for many values of its parameters, in as few statements as possible."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from django.db import connection

Key = TypeVar("Key")

EARLIEST = datetime.min.replace(tzinfo=UTC)
"""A placeholder for the start of a range of time, or its first value."""
LATEST = datetime.max.replace(tzinfo=UTC)
"""A placeholder for the end of a range of time, or its last value."""
QUERIES_PER_STATEMENT = 200
"""SQLite accepts at most 500 SELECTs in one statement."""


def run_for_each(
    query: Any, values: Iterable[tuple[Key, Mapping[Any, Any]]]
) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """Yield the rows of a QuerySet of tuples for each key and its values.

    The values replace the placeholders that the query has as parameters. It is compiled
    once, because Django takes longer to compile a short query than SQLite to run it.
    """
    sql, parameters = query.query.sql_with_params()
    remaining = iter(values)
    while batch := list(islice(remaining, QUERIES_PER_STATEMENT)):
        bound = []
        for _, chosen in batch:
            adapted = {
                adapt_value(name): adapt_value(each) for name, each in chosen.items()
            }
            bound += [adapted.get(each, each) for each in parameters]
        queries = (
            f"SELECT {number}, part.* FROM ({sql}) AS part"  # noqa: S608
            for number in range(len(batch))
        )
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(queries), bound)
            for number, *row in cursor.fetchall():
                yield batch[number][0], tuple(row)


def adapt_value(value: Any) -> Any:
    """Return a parameter as the database's driver takes it."""
    is_instant = isinstance(value, datetime)
    return connection.ops.adapt_datetimefield_value(value) if is_instant else value
