"""What can go wrong between async code and the tables."""

from core.errors import Unavailable


class DatabaseDown(Unavailable):
    """The database is not available; nothing was stored. Try again."""

    code = "database_unavailable"


class TurnDiscarded(Exception):
    """What was to be written is no longer wanted: its task was erased, or another
    worker has it. It ends the transaction, and is not logged as a fault.
    """
