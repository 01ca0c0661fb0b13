"""Passages: the searchable texts of facts and messages.

Passages are immutable. A change deletes one and inserts another with a higher id, so
that cached passages (`memory.recall.index.corpus_cache`) stay valid. A deletion also
increments the owner's version, so that processes notice it.
"""

import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from django.db import connection, transaction

from core.ids import UserId
from memory.models import Passage
from memory.models.fields import write_vector
from memory.recall.index import term_encoding, tokenizer
from memory.recall.passage_sources import to_sql_id, to_uuid
from memory.recall.types import Embedded

FactText = tuple[uuid.UUID, str, Embedded | None, str]
"""The fact's id, content and vector, and the reason if it has none."""
MessageText = tuple[int, int, str, Embedded | None, str]
"""The message's id, position, text and vector, and the reason if it has none."""

BATCH_SIZE = 500
"""Rows per statement."""
MAX_ERROR_LENGTH = 1000

SUBJECT_PATTERN = re.compile(r"^\s*(?:the\s+)?user(?:['\u2019]s)?\s+", re.IGNORECASE)

COLUMNS = (
    "user_id",
    "fact_id",
    "message_id",
    "thread_id",
    "position",
    "is_question",
    "terms",
    "embedder",
    "dimensions",
    "vector",
    "embedding_error",
)
CASTS = {"terms": "%s::tsvector", "vector": "%s::vector"}
"""Explicit casts, which PostgreSQL needs."""

BUMP_VERSION_SQL = """
    INSERT INTO memory_owner (user_id, version, time_zone, created_at)
    VALUES (%s, 1, '', %s)
    ON CONFLICT (user_id) DO UPDATE SET version = memory_owner.version + 1
"""
BUMP_EXISTING_VERSION_SQL = (
    "UPDATE memory_owner SET version = version + 1 WHERE user_id = %s"
)

REFRESH_WINDOWS_SQL = """
    UPDATE memory_passage p SET window_terms = p.terms
        || coalesce((SELECT terms FROM memory_passage WHERE message_id = o.before), '')
        || coalesce((SELECT terms FROM memory_passage WHERE message_id = o.after), '')
    FROM (
        SELECT m.id,
            (SELECT id FROM memory_message
             WHERE thread_id = m.thread_id AND position = m.position - 1) AS before,
            (SELECT id FROM memory_message
             WHERE thread_id = m.thread_id AND position = m.position + 1) AS after
        FROM memory_message m WHERE m.thread_id = %s AND m.position = ANY(%s)
    ) o
    WHERE p.message_id = o.id AND p.user_id = %s
"""

PENDING_SQL = """
    SELECT p.id, p.user_id, f.content, m.text FROM memory_passage p
    LEFT JOIN memory_fact f ON f.id = p.fact_id
    LEFT JOIN memory_message m ON m.id = p.message_id
    WHERE p.id > %s AND p.embedder <> %s ORDER BY p.id LIMIT %s
"""
SET_VECTOR_SQL = """
    UPDATE memory_passage SET id = {number}, embedder = %s, dimensions = %s,
        vector = {vector}, embedding_error = %s
    WHERE id = %s AND user_id = %s
"""
NEXT_ID_SQL = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'memory_passage'"
NEW_ID_SQL = "(SELECT seq FROM sqlite_sequence WHERE name = 'memory_passage')"


def strip_subject(text: str) -> str:
    """Return a fact without the leading "The user", which all facts share.

    Used for embedding; `index_facts` removes it from the words itself.
    """
    return SUBJECT_PATTERN.sub("", text, count=1) or text


def index_facts(user_id: UserId, texts: Sequence[FactText]) -> None:
    """Make facts searchable by their current content, replacing earlier passages.

    Call it in the transaction that changes the facts.
    """
    _remove(user_id, "fact_id", [to_sql_id(fact_id) for fact_id, *_ in texts])
    vendor = connection.vendor
    _insert(
        [
            (
                to_sql_id(user_id),
                to_sql_id(fact_id),
                None,
                None,
                None,
                False,
                term_encoding.write_terms(user_id, _fact_terms(content), vendor),
                *_vector_columns(embedded, error),
            )
            for fact_id, content, embedded, error in texts
        ]
    )


def unindex_facts(user_id: UserId, fact_ids: Sequence[uuid.UUID]) -> None:
    """Make facts unsearchable; call it in the transaction that retires them."""
    _remove(user_id, "fact_id", [to_sql_id(fact_id) for fact_id in fact_ids])


def index_messages(
    user_id: UserId, thread_id: int, messages: Sequence[MessageText]
) -> None:
    """Make messages of one thread searchable, alone and with their neighbours.

    Existing passages of the messages are replaced.
    """
    vendor = connection.vendor
    rows = [
        (
            to_sql_id(user_id),
            None,
            message_id,
            thread_id,
            position,
            tokenizer.is_question(text),
            term_encoding.write_terms(user_id, tokenizer.tokenize(text), vendor),
            *_vector_columns(embedded, error),
        )
        for message_id, position, text, embedded, error in messages
    ]
    with transaction.atomic():
        if vendor == "postgresql":
            _lock_thread(thread_id)
        _remove(user_id, "message_id", [message_id for message_id, *_ in messages])
        _insert(rows)
        if vendor == "postgresql":
            _refresh_windows(user_id, thread_id, [row[1] for row in messages])


def _fact_terms(content: str) -> list[str]:
    return tokenizer.tokenize(strip_subject(content))


def _vector_columns(embedded: Embedded | None, error: str) -> tuple[Any, ...]:
    if embedded is None:
        return "", 0, None, error[:MAX_ERROR_LENGTH]
    vector = np.asarray(embedded.vector)
    sql_vector = write_vector(vector, connection.vendor)
    return embedded.embedder, len(vector), sql_vector, ""


def _insert(rows: Sequence[tuple[Any, ...]]) -> None:
    casts = CASTS if connection.vendor == "postgresql" else {}
    row_sql = "(" + ", ".join(casts.get(name, "%s") for name in COLUMNS) + ")"
    insert_sql = f"INSERT INTO memory_passage ({', '.join(COLUMNS)}) VALUES "  # noqa: S608
    with connection.cursor() as cursor:
        for batch in _batches(rows):
            values = [value for row in batch for value in row]
            cursor.execute(insert_sql + ", ".join([row_sql] * len(batch)), values)


def _remove(user_id: UserId, column: str, ids: Sequence[Any]) -> None:
    removed = 0
    with connection.cursor() as cursor:
        for batch in _batches(ids):
            marks = ", ".join(["%s"] * len(batch))
            cursor.execute(
                "DELETE FROM memory_passage "  # noqa: S608  a column's name and marks
                f"WHERE user_id = %s AND {column} IN ({marks})",
                [to_sql_id(user_id), *batch],
            )
            removed += cursor.rowcount
    if removed:
        _bump_version(user_id)


def _bump_version(user_id: UserId) -> None:
    now = connection.ops.adapt_datetimefield_value(datetime.now(UTC))
    with connection.cursor() as cursor:
        cursor.execute(BUMP_VERSION_SQL, [to_sql_id(user_id), now])


def _bump_existing_version(user_id: UserId) -> None:
    """Increment the owner's version, unless the user was erased meanwhile."""
    with connection.cursor() as cursor:
        # Waits for a running erasure.
        cursor.execute(BUMP_EXISTING_VERSION_SQL, [to_sql_id(user_id)])
        is_known = cursor.rowcount > 0
    if not is_known and Passage.objects.filter(user_id=user_id).exists():
        _bump_version(user_id)


def _lock_thread(thread_id: int) -> None:
    """Lock the passages of a thread, because windows overlap."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('memory_passage'), %s)",
            [thread_id % 2**31],
        )


def _refresh_windows(user_id: UserId, thread_id: int, positions: list[int]) -> None:
    window_positions = sorted({p + step for p in positions for step in (-1, 0, 1)})
    with connection.cursor() as cursor:
        cursor.execute(REFRESH_WINDOWS_SQL, [thread_id, window_positions, user_id])


def _batches(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (
        rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE)
    )


# Re-embedding.


class PendingPassage(NamedTuple):
    """A passage without a vector of the current embedder."""

    id: int
    user_id: UserId
    text: str
    """What to embed."""


def list_pending(
    embedder_id: str, *, after: int = 0, limit: int = 64
) -> list[PendingPassage]:
    """Return passages of all users to embed with this embedder, oldest first.

    These have no vector or another embedder's, and ids above `after`. `set_vectors` may
    give them higher ids.
    """
    with connection.cursor() as cursor:
        cursor.execute(PENDING_SQL, [after, embedder_id, limit])
        rows = cursor.fetchall()
    return [
        PendingPassage(
            number,
            UserId(to_uuid(user_id)),
            message_text or strip_subject(content or ""),
        )
        for number, user_id, content, message_text in rows
    ]


def count_pending(embedder_id: str) -> int:
    """Return how many passages `list_pending` would return in total."""
    return Passage.objects.exclude(embedder=embedder_id).count()


def set_vectors(results: Sequence[tuple[PendingPassage, Embedded | None, str]]) -> None:
    """Store vectors of passages, or the reasons for missing ones; all or none.

    Passages deleted meanwhile are skipped.
    """
    with transaction.atomic():
        # Always in this order, the owner's row first, so that two transactions cannot
        # deadlock.
        for user_id in sorted({passage.user_id for passage, _, _ in results}):
            _bump_existing_version(user_id)
        for passage, embedded, error in results:
            _set_vector(passage, _vector_columns(embedded, error))


def _set_vector(passage: PendingPassage, values: tuple[Any, ...]) -> None:
    is_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if not is_postgres:
            # Inserted as a new passage, because other processes cache the old one.
            cursor.execute(NEXT_ID_SQL)
        cursor.execute(
            SET_VECTOR_SQL.format(
                number="id" if is_postgres else NEW_ID_SQL,
                vector=CASTS["vector"] if is_postgres else "%s",
            ),
            [*values, passage.id, to_sql_id(passage.user_id)],
        )
