"""pgvector's HNSW graph of an embedder's vectors, for users with very many.

One index per embedder covers the vectors of all users. A search walks it until it has
met enough of the user's vectors, which is fast if they are a large share.
"""

import hashlib
import logging
from typing import Any

from django.contrib.postgres.indexes import OpClass
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Cast
from django.db.models.indexes import IndexExpression
from pgvector.django import HalfVectorField, HnswIndex

from database import process_lock
from memory.models import Passage

# As the app `django.contrib.postgres` does, of which nothing else is used.
IndexExpression.register_wrappers(*IndexExpression.wrapper_classes, OpClass)

logger = logging.getLogger(__name__)

MAX_DIMENSIONS = 4_000
"""Maximum dimensions of an HNSW index of half precision."""

GRAPH_COST = 60_000
"""The cost of a graph search in compared codes, if all vectors are the user's. It grows
as their share shrinks: a third of the vectors costs three times as much."""

SIZE_SQL = """
    SELECT c.reltuples FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relname = %s AND c.relnamespace = current_schema()::regnamespace
        AND i.indisvalid
"""
NEAREST_SQL = """
    SET LOCAL hnsw.iterative_scan = relaxed_order;
    SET LOCAL hnsw.ef_search = 120;
    SET LOCAL jit = off;
    SET LOCAL enable_sort = off;
    SELECT id, 1 - distance, is_question FROM (
        SELECT p.id, p.is_question, p.vector::halfvec(DIMENSIONS)
            <=> %(vector)s::halfvec(DIMENSIONS) AS distance
        FROM memory_passage p
        WHERE p.user_id = %(user_id)s AND p.embedder = %(embedder)s
            AND p.dimensions = DIMENSIONS AND {kind} {only}
        ORDER BY distance LIMIT %(depth)s
    ) near
    WHERE distance <= %(max_distance)s;
    SET LOCAL enable_sort = on
"""


def nearest_sql(dimensions: int) -> str:
    """Return the query that searches the graph; see `postgres_index.NEAREST_SQL`.

    In plain SQL, because it shares its conditions with that one, and sends the settings
    with the query.
    """
    return NEAREST_SQL.replace("DIMENSIONS", str(int(dimensions)))


def is_faster(embedder: str, count: int) -> bool:
    """Return whether the graph is faster than comparing a user's `count` codes."""
    if count < GRAPH_COST:
        return False
    rows = _index_size(index_name(embedder))
    return rows is not None and count * count >= GRAPH_COST * rows


def ensure_index(embedder: str, dimensions: int) -> bool:
    """Build an embedder's index if it is missing, and return whether it was built.

    Searches and writes continue meanwhile; it takes about a minute for a hundred
    thousand vectors. Does nothing if another process is building it, if the role does
    not own the table, or on SQLite, which needs none. Do not call it in a transaction.
    """
    if connection.vendor != "postgresql" or not 0 < dimensions <= MAX_DIMENSIONS:
        return False
    name = index_name(embedder)
    if _index_size(name) is not None:
        return False
    if not _owns_table():
        logger.warning(
            "this database role may not index memories for the embedder %s: run "
            "`coulisse reindex` as the role that migrates",
            embedder,
        )
        return False
    vector = Cast("vector", HalfVectorField(dimensions=dimensions))
    index = HnswIndex(
        OpClass(vector, "halfvec_cosine_ops"),
        name=name,
        condition=Q(embedder=embedder, dimensions=dimensions),
    )
    with process_lock.tried(name) as is_ours:
        if is_ours:
            editor: Any  # PostgreSQL's has `concurrently`.
            with connection.schema_editor(atomic=False) as editor:
                # An interrupted build leaves an invalid index.
                editor.remove_index(Passage, index, concurrently=True)
                editor.add_index(Passage, index, concurrently=True)
    return is_ours


def _owns_table() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = "
            "'memory_passage'::regclass"
        )
        return bool(cursor.fetchone()[0])


def index_name(embedder: str) -> str:
    digest = hashlib.blake2b(embedder.encode(), digest_size=8).hexdigest()
    return f"memory_passage_near_{digest}"


def _index_size(name: str) -> float | None:
    """Return the approximate number of vectors in an index, or None if it is missing or
    incomplete."""
    with connection.cursor() as cursor:
        cursor.execute(SIZE_SQL, [name])
        row = cursor.fetchone()
    return None if row is None else max(float(row[0]), 1.0)
