"""Model fields whose column type depends on the database."""

from typing import Any

import numpy as np
import orjson
import pgvector.django
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

FLOAT32 = np.dtype("<f4")


class VectorField(pgvector.django.VectorField):
    """A vector of float32, of any length: pgvector's `vector`, or bytes on SQLite."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        is_postgres = connection.vendor == "postgresql"
        return str(super().db_type(connection)) if is_postgres else "blob"

    def get_prep_value(self, value: Any) -> Any:
        return value

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        return None if value is None else write_vector(value, connection.vendor)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else read_vector(value)


class TermsField(models.Field):  # type: ignore[type-arg]
    """The terms of a text: a `tsvector`, or their hashes as bytes on SQLite."""

    description = "Search terms"
    depends_on_database = True
    """Its values are rewritten when rows are moved to the other kind of database."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "blob"


def write_vector(vector: np.ndarray, vendor: str) -> Any:
    """Return a vector in the form that its column takes."""
    exact = np.ascontiguousarray(vector, dtype=FLOAT32)
    if vendor == "postgresql":
        # The shortest text of each number, several times as fast as Python's `repr`.
        return orjson.dumps(exact, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return exact.tobytes()


def read_vector(value: Any) -> np.ndarray:
    """Return the vector of a column value in any database's form."""
    if isinstance(value, str):
        return np.fromstring(value[1:-1], dtype=FLOAT32, sep=",")
    return np.frombuffer(value, dtype=FLOAT32)
