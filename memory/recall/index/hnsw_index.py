"""The graph of an embedder's vectors, for users with very many: pgvector's HNSW.

One index for each embedder, over the vectors of all users; a search walks it until it
has met enough of the user's own, which is soon where they are a good part of it.
"""

import hashlib

from django.db import connection

MAX_DIMENSIONS = 4_000
"""What an HNSW index of half precision takes."""

GRAPH_COST = 60_000
"""The graph costs as much as so many codes, and more the fewer of its vectors are the
user's: a third of them, three times as much."""

SIZE_SQL = """
    SELECT c.reltuples FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relname = %s AND c.relnamespace = current_schema()::regnamespace
        AND i.indisvalid
"""
CREATE_SQL = """
    CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON memory_passage
    USING hnsw ((vector::halfvec({dimensions})) halfvec_cosine_ops)
    WHERE embedder = {embedder} AND dimensions = {dimensions}
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
    WHERE distance <= %(furthest)s;
    SET LOCAL enable_sort = on
"""


def nearest_sql(dimensions: int) -> str:
    """Return the query that walks the graph; see `index_postgres.NEAREST_SQL`."""
    return NEAREST_SQL.replace("DIMENSIONS", str(int(dimensions)))


def is_faster(embedder: str, count: int) -> bool:
    """Say whether the graph is faster than comparing so many codes of a user."""
    if count < GRAPH_COST:
        return False
    rows = _index_size(index_name(embedder))
    return rows is not None and count * count >= GRAPH_COST * rows


def ensure_index(embedder: str, dimensions: int) -> bool:
    """Build an embedder's index where there is none, and return whether it did.

    Searches and writes go on meanwhile; it takes about a minute for a hundred thousand
    vectors. Nothing is done where another process is building it, nor on SQLite, which
    needs none. Not to be called in a transaction.
    """
    if connection.vendor != "postgresql" or not 0 < dimensions <= MAX_DIMENSIONS:
        return False
    name = index_name(embedder)
    if _index_size(name) is not None:
        return False
    create = CREATE_SQL.format(
        name=name, dimensions=int(dimensions), embedder=_quote_literal(embedder)
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [name])
        if cursor.fetchone() != (True,):
            return False
        try:
            # One that was broken off is there, but of no use.
            cursor.execute(f"DROP INDEX IF EXISTS {name}")
            cursor.execute(create)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", [name])
    return True


def index_name(embedder: str) -> str:
    """Return the name of an embedder's index."""
    digest = hashlib.blake2b(embedder.encode(), digest_size=8).hexdigest()
    return f"memory_passage_near_{digest}"


def _index_size(name: str) -> float | None:
    """Return about how many vectors an index has; None is no index, or half of one."""
    with connection.cursor() as cursor:
        cursor.execute(SIZE_SQL, [name])
        row = cursor.fetchone()
    return None if row is None else max(float(row[0]), 1.0)


def _quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
