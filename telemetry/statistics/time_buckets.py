"""What the database groups by, so that it does so at no great cost.

Instants as the hour or the day they are in, in UTC: Django's own functions are called
back from SQLite for each row, ten times as slow.
"""

from typing import Any

from django.db.models import CharField, Func


class TimeBucket(Func):
    """The beginning of an instant's ISO text."""

    arity = 1
    output_field = CharField()
    characters = 0
    postgresql = ""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Cut the text that SQLite keeps, which is of UTC."""
        template = f"SUBSTR(%(expressions)s, 1, {self.characters})"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Write the text, whatever the connection's time zone is."""
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
    """A column as it is, but nothing SQLite would pick an index for."""

    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Write it as an expression, which no index has."""
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)
