"""Errors between async code and the tables."""

from core.errors import Unavailable


class DatabaseDown(Unavailable):
    """The database is not available; nothing was stored. Try again."""

    code = "database_unavailable"


class TurnDiscarded(Exception):
    """The write is obsolete: its task was erased, or another worker has the task. It
    rolls the transaction back, and is not logged as an error.
    """
