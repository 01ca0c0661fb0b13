"""Facts and messages by the passages that were found, as they are now."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import connection

from core.ids import UserId
from memory.known import KnownFact

T = TypeVar("T")

FACT_COLUMNS = (
    *("id", "content", "category", "key", "importance", "status", "is_pinned"),
    *("source", "agent", "quote", "said_at", "valid_from", "valid_to", "expires_at"),
    *("superseded_by_id", "created_at", "updated_at"),
)
"""The columns of `memory_fact`, in the order of `KnownFact`."""

MessageFields = tuple[int, str, int, str, str, str, float, datetime]
"""Those of `FoundMessage`, but for the score."""

FACTS = f"""
    SELECT p.id, {", ".join(f"f.{name}" for name in FACT_COLUMNS)}
    FROM memory_passage p JOIN memory_fact f ON f.id = p.fact_id
    WHERE p.user_id = %s AND f.user_id = %s AND p.id IN
"""  # noqa: S608
MESSAGES = """
    SELECT p.id, m.id, t.name, m.position, m.role, m.text, m.agent, m.importance,
        m.created_at
    FROM memory_passage p JOIN memory_message m ON m.id = p.message_id
        JOIN memory_thread t ON t.id = m.thread_id
    WHERE p.user_id = %s AND t.user_id = %s AND p.id IN
"""


def facts(user_id: UserId, found: Sequence[int]) -> dict[int, KnownFact]:
    """Return the user's facts behind these passages, by passage."""
    return {row[0]: fact_of(row[1:]) for row in _rows(FACTS, user_id, found)}


def messages(user_id: UserId, found: Sequence[int]) -> dict[int, MessageFields]:
    """Return the user's messages behind these passages, by passage."""
    return {
        row[0]: (*row[1:8], aware(row[8])) for row in _rows(MESSAGES, user_id, found)
    }


def fact_of(row: Sequence[Any]) -> KnownFact:
    """Return the fact whose `FACT_COLUMNS` plain SQL gave."""
    number, content, category, key, importance, status, is_pinned, *rest = row
    source, agent, quote, said_at, valid_from, valid_to, expires_at, *rest = rest
    superseded_by, created_at, updated_at = rest
    return KnownFact(
        *(id_of(number), content, category, key, importance, status, bool(is_pinned)),
        *(source, agent, quote, aware(said_at)),
        *(_maybe(aware, valid_from), _maybe(aware, valid_to)),
        *(_maybe(aware, expires_at), _maybe(id_of, superseded_by)),
        *(aware(created_at), aware(updated_at)),
    )


def id_of(value: Any) -> uuid.UUID:
    """Return an id as plain SQL gives it: SQLite has but its digits."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def key_of(value: uuid.UUID) -> Any:
    """Return an id as plain SQL takes it."""
    return value if connection.features.has_native_uuid_field else value.hex


def aware(value: datetime) -> datetime:
    """Return an instant as plain SQL gives it, in UTC where SQLite does not say."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _maybe(convert: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else convert(value)


def _rows(query: str, user_id: UserId, found: Sequence[int]) -> list[tuple[Any, ...]]:
    if not found:
        return []
    key = key_of(user_id)
    marks = ", ".join(["%s"] * len(found))
    with connection.cursor() as cursor:
        cursor.execute(f"{query} ({marks})", [key, key, *found])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
