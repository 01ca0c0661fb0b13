"""The current facts and messages behind found passages."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from core.ids import UserId
from memory.facts.types import StoredFact

FACT_COLUMNS = (
    "id",
    "content",
    "category",
    "key",
    "importance",
    "status",
    "is_pinned",
    "source",
    "agent",
    "quote",
    "said_at",
    "valid_from",
    "valid_to",
    "expires_at",
    "superseded_by_id",
    "created_at",
    "updated_at",
)
"""The columns of `memory_fact`, in the order of `StoredFact`."""

MessageFields = tuple[int, str, int, str, str, str, float, datetime]
"""The columns of `MessageHit`, except the score."""

FACTS_SQL = f"""
    SELECT p.id, {", ".join(f"f.{name}" for name in FACT_COLUMNS)}
    FROM memory_passage p JOIN memory_fact f ON f.id = p.fact_id
    WHERE p.user_id = %s AND f.user_id = %s AND p.id IN
"""  # noqa: S608
MESSAGES_SQL = """
    SELECT p.id, m.id, t.name, m.position, m.role, m.text, m.agent, m.importance,
        m.created_at
    FROM memory_passage p JOIN memory_message m ON m.id = p.message_id
        JOIN memory_thread t ON t.id = m.thread_id
    WHERE p.user_id = %s AND t.user_id = %s AND p.id IN
"""


def load_facts(user_id: UserId, found: Sequence[int]) -> dict[int, StoredFact]:
    """Return the user's facts behind these passages, by passage."""
    return {
        row[0]: fact_from_row(row[1:]) for row in _fetch_rows(FACTS_SQL, user_id, found)
    }


def load_messages(user_id: UserId, found: Sequence[int]) -> dict[int, MessageFields]:
    """Return the user's messages behind these passages, by passage."""
    return {
        row[0]: (*row[1:8], to_utc(row[8]))
        for row in _fetch_rows(MESSAGES_SQL, user_id, found)
    }


def fact_from_row(row: Sequence[Any]) -> StoredFact:
    """Return the fact of a row of `FACT_COLUMNS`."""
    (number, content, category, key, importance, status, is_pinned, source, agent) = (
        row[:9]
    )
    quote, said_at, valid_from, valid_to, expires_at, superseded_by, *times = row[9:]
    return StoredFact(
        to_uuid(number),
        content,
        category,
        key,
        importance,
        status,
        bool(is_pinned),
        source,
        agent,
        quote,
        to_utc(said_at),
        valid_from and to_utc(valid_from),
        valid_to and to_utc(valid_to),
        expires_at and to_utc(expires_at),
        superseded_by and to_uuid(superseded_by),
        to_utc(times[0]),
        to_utc(times[1]),
    )


def to_uuid(value: Any) -> uuid.UUID:
    """Return the id of a value read by plain SQL; SQLite stores hexadecimal digits."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def to_sql_id(value: uuid.UUID) -> Any:
    """Return an id in the form that plain SQL takes."""
    return value if connection.features.has_native_uuid_field else value.hex


def to_utc(value: datetime) -> datetime:
    """Return an instant read by plain SQL, in UTC, which SQLite omits."""
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _fetch_rows(
    query: str, user_id: UserId, found: Sequence[int]
) -> list[tuple[Any, ...]]:
    if not found:
        return []
    key = to_sql_id(user_id)
    placeholders = ", ".join(["%s"] * len(found))
    with connection.cursor() as cursor:
        cursor.execute(f"{query} ({placeholders})", [key, key, *found])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
