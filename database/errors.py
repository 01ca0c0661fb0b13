"""Errors between async code and the tables."""

from core.errors import Invalid, Unavailable


class DatabaseDown(Unavailable):
    """The database is unavailable; nothing was stored. Try again later."""

    code = "database_unavailable"


class DatabaseUnwritable(DatabaseDown):
    """Nothing can be stored at the moment, so no model was asked. Try again later."""


class TurnDiscarded(Exception):
    """The write is obsolete: its task was erased, or another worker has the task.

    Raising it rolls the transaction back. It is not logged as an error.
    """


class TransferRefused(Invalid):
    """The rows cannot be moved between these databases."""


class TransferFailed(Unavailable):
    """The rows were not moved, or not all of them."""


class PgvectorMissing(Unavailable):
    """The database has no extension pgvector, and this role cannot create it."""

    code = "pgvector_missing"

    def __init__(self, reason: str) -> None:
        super().__init__(
            detail=f"install pgvector 0.8 on the database server, and let a superuser "
            f"run `CREATE EXTENSION vector` in this database ({reason})"
        )
