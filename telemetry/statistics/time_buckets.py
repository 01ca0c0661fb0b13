"""Database expressions for cheap grouping.

Instants are grouped by hour or day in UTC. On SQLite, Django's own functions call back
into Python for each row, which is ten times as slow.
"""

from typing import Any

from django.db.models import CharField, Func


class TimeBucket(Func):
    """A prefix of an instant's ISO text."""

    arity = 1
    output_field = CharField()
    characters = 0
    postgresql = ""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Take a prefix of the text that SQLite stores, which is in UTC."""
        template = f"SUBSTR(%(expressions)s, 1, {self.characters})"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Format the text in UTC, whatever the connection's time zone is."""
        instant = "%(expressions)s AT TIME ZONE 'UTC'"
        template = f"TO_CHAR({instant}, '{self.postgresql}')"
        return self.as_sql(compiler, connection, template=template, **extra)


class DayBucket(TimeBucket):
    """`2026-11-21`."""

    characters = 10
    postgresql = "YYYY-MM-DD"


class HourBucket(TimeBucket):
    """`2026-11-21 18`."""

    characters = 13
    postgresql = "YYYY-MM-DD HH24"


class UnindexedColumn(Func):
    """A column that SQLite does not match with an index."""

    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Compile it as an expression, which no index has."""
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)
