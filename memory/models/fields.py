"""Model fields whose column type depends on the database."""

from typing import Any

import numpy as np
import orjson
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

FLOAT32 = np.dtype("<f4")
HASH32 = np.dtype("<u4")


class VectorField(models.Field):  # type: ignore[type-arg]
    """A vector of float32, of any length: pgvector's `vector`, or bytes on SQLite."""

    description = "Vector"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "vector" if connection.vendor == "postgresql" else "blob"


class TermsField(models.Field):  # type: ignore[type-arg]
    """The terms of a text: a `tsvector`, or their hashes as bytes on SQLite."""

    description = "Search terms"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "blob"


def write_vector(vector: np.ndarray, vendor: str) -> Any:
    """Return a vector in the form that plain SQL passes to its column."""
    if vendor == "postgresql":
        # The shortest text of each number, several times as fast as Python's `repr`.
        exact = np.ascontiguousarray(vector, dtype=np.float32)
        return orjson.dumps(exact, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return vector.astype(FLOAT32).tobytes()


def read_vector(value: Any) -> np.ndarray:
    """Return the vector of a column value in any database's form."""
    if isinstance(value, str):
        return np.fromstring(value[1:-1], dtype=FLOAT32, sep=",")
    return np.frombuffer(value, dtype=FLOAT32)
