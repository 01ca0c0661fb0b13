"""Memories that every prompt has: pinned facts and important messages.

In plain SQL, because every turn reads them.
"""

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from core.ids import UserId
from memory.config import MemoryConfig
from memory.facts.types import StoredFact
from memory.recall import passage_sources
from memory.recall.types import MessageHit
from memory.transcript.message_store import RecentMessages

PINNED_IMPORTANCE = 9
"""The importance from which a fact is in every prompt."""

FACTS_SQL = f"""
    SELECT {", ".join(passage_sources.FACT_COLUMNS)} FROM memory_fact {{index}}
    WHERE user_id = %s AND status = 'active'
        AND (is_pinned OR importance >= {PINNED_IMPORTANCE})
        AND (is_pinned OR expires_at IS NULL OR expires_at > %s)
        AND (valid_from IS NULL OR valid_from <= %s)
        AND (valid_to IS NULL OR valid_to > %s)
    ORDER BY is_pinned DESC, importance DESC, created_at, id
    LIMIT %s
"""  # noqa: S608
INDEX_HINT = "INDEXED BY memory_fact_in_prompts"
"""Without statistics, SQLite would read all facts of the user."""
MESSAGES_SQL = """
    SELECT id, position, role, text, agent, importance, created_at
    FROM memory_message
    WHERE thread_id = %s AND position < %s AND importance >= %s {high_importance}
        AND role IN ('user', 'assistant') AND text <> ''
    ORDER BY position DESC LIMIT %s
"""
HIGH_IMPORTANCE = 0.5
"""Few messages are above it. The partial index repeats this condition literally."""


def pinned_facts(user_id: UserId, *, limit: int) -> list[StoredFact]:
    """Return the facts of every prompt: pinned ones, then the most important.

    The order is stable, so that providers can reuse the prompt's prefix.
    """
    if not limit:
        return []
    now = connection.ops.adapt_datetimefield_value(datetime.now(UTC))
    query = FACTS_SQL.format(index=INDEX_HINT if connection.vendor == "sqlite" else "")
    rows = _fetch_rows(
        query, [passage_sources.to_sql_id(user_id), now, now, now, limit]
    )
    return list(map(passage_sources.fact_from_row, rows))


def important_messages(
    recent: RecentMessages, thread: str, settings: MemoryConfig
) -> list[MessageHit]:
    """Return a thread's important messages that precede the recent ones."""
    if recent.thread_id is None or not recent.first_position:
        return []
    min_importance = settings.salience_threshold
    query = MESSAGES_SQL.format(
        high_importance=f"AND importance > {HIGH_IMPORTANCE}"
        if min_importance > HIGH_IMPORTANCE
        else ""
    )
    place = [recent.thread_id, recent.first_position]
    rows = _fetch_rows(query, [*place, min_importance, settings.salience_limit])
    return [
        MessageHit(
            message_id,
            thread,
            position,
            role,
            text,
            agent,
            importance,
            passage_sources.to_utc(created_at),
        )
        for message_id, position, role, text, agent, importance, created_at in rows
    ]


def _fetch_rows(query: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
