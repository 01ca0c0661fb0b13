"""Django's backend for SQLite, with a cache of translated statements.

Django replaces `%s` by `?` with a regular expression at each execution of a statement.
That takes 20 µs per kilobyte, which is longer than SQLite needs for many statements.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base

MAX_CACHED = 1024
"""Number of statements. Few differ, except in the number of rows."""
MAX_CACHED_LENGTH = 8_000
"""Maximum characters of a cached statement."""


class Cursor(base.SQLiteCursorWrapper):
    """A cursor that caches translated statements."""

    def convert_query(
        self, query: str, *, param_names: Sequence[str] | None = None
    ) -> str:
        """Return a statement with SQLite's parameter style."""
        if param_names is None and len(query) <= MAX_CACHED_LENGTH:
            return _with_question_marks(query)
        translated: str = super().convert_query(query, param_names=param_names)
        return translated


@lru_cache(MAX_CACHED)
def _with_question_marks(query: str) -> str:
    return base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%")


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper with caching cursors."""

    def create_cursor(self, name: Any = None) -> Cursor:
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        return cursor
