"""The progress of a transfer, in a table of its target.

A step's progress is stored in the transaction of its rows, so a killed transfer
continues exactly after them. The table is not a model: it exists only until the
transfer has been verified.
"""

from typing import Any, NamedTuple

from django.db import connections

CREATE_SQL = """
    CREATE TABLE {} (
        step varchar(200) PRIMARY KEY, last_key text, row_count bigint NOT NULL,
        is_done integer NOT NULL
    )
"""
READ_SQL = "SELECT last_key, row_count, is_done FROM {} WHERE step = %s"
STORE_SQL = """
    INSERT INTO {} (step, last_key, row_count, is_done) VALUES (%s, %s, %s, %s)
    ON CONFLICT (step) DO UPDATE SET last_key = excluded.last_key,
        row_count = excluded.row_count, is_done = excluded.is_done
"""


class StepProgress(NamedTuple):
    """How far a step has come: the key of its last row, as text, and its rows."""

    last_key: str | None = None
    row_count: int = 0
    is_done: bool = False


class TransferProgress:
    """The table of one database."""

    TABLE = "coulisse_transfer"

    def __init__(self, alias: str) -> None:
        self._connection = connections[alias]

    def exists(self) -> bool:
        return self.TABLE in self._connection.introspection.table_names()

    def create(self) -> None:
        self._execute(CREATE_SQL)

    def drop(self) -> None:
        self._execute("DROP TABLE {}")

    def read(self, step: str) -> StepProgress:
        with self._connection.cursor() as cursor:
            cursor.execute(READ_SQL.format(self.TABLE), [step])
            row = cursor.fetchone()
        return StepProgress(row[0], row[1], bool(row[2])) if row else StepProgress()

    def store(self, step: str, progress: StepProgress) -> None:
        key, count, is_done = progress
        self._execute(STORE_SQL, [step, key, count, int(is_done)])

    def _execute(self, sql: str, values: list[Any] | None = None) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql.format(self.TABLE), values)
