"""Database expressions for cheap grouping.

On SQLite, Django's own functions of time call back into Python for each row, which is
ten times as slow.
"""

from typing import Any

from django.db.models import Aggregate, CharField, Func


class HourBucket(Func):
    """The hour of an instant in UTC, as text: `2026-11-21 18`."""

    arity = 1
    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Take a prefix of the text that SQLite stores, which is in UTC."""
        template = "SUBSTR(%(expressions)s, 1, 13)"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Format the text in UTC, whatever the connection's time zone is."""
        template = "TO_CHAR(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24')"
        return self.as_sql(compiler, connection, template=template, **extra)


class DayBucket(Func):
    """The day of an instant in UTC, as text: `2026-11-21`."""

    arity = 1
    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Take a prefix of the text that SQLite stores, which is in UTC."""
        template = "SUBSTR(%(expressions)s, 1, 10)"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Format the text in UTC, whatever the connection's time zone is."""
        template = "TO_CHAR(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        return self.as_sql(compiler, connection, template=template, **extra)


class UnindexedColumn(Func):
    """A column that SQLite does not match with an index."""

    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Compile it as an expression, which no index has."""
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


class JsonList(Aggregate):
    """The values of a group as the text of a JSON array."""

    arity = 1
    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "JSON_GROUP_ARRAY(%(expressions)s)"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "JSON_AGG(%(expressions)s)::text"
        return self.as_sql(compiler, connection, template=template, **extra)
