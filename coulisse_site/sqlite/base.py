"""Django's backend for SQLite, which here translates a statement once.

Django puts `?` for `%s` by a regular expression over the whole statement, at each of
its executions: some 20 µs a kilobyte, more than SQLite takes for what it then does.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base

MAX_CACHED = 1024
"""Statements; their texts are few, but for the number of rows of some."""
MAX_CACHED_LENGTH = 8_000
"""Characters of a statement that is remembered."""


class Cursor(base.SQLiteCursorWrapper):
    """A cursor that remembers translations."""

    def convert_query(
        self, query: str, *, param_names: Sequence[str] | None = None
    ) -> str:
        """Return a statement with its parameters as SQLite writes them."""
        if param_names is None and len(query) <= MAX_CACHED_LENGTH:
            return _with_question_marks(query)
        translated: str = super().convert_query(query, param_names=param_names)
        return translated


@lru_cache(MAX_CACHED)
def _with_question_marks(query: str) -> str:
    return base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%")


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, with cursors of ours."""

    def create_cursor(self, name: Any = None) -> Cursor:
        """Return a new cursor."""
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        return cursor
