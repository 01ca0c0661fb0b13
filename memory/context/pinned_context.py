"""What a prompt has whatever is asked: standing facts and important messages.

Plain SQL, for every turn reads them.
"""

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from core.ids import UserId
from memory.config import MemoryConfig
from memory.recall import passage_sources
from memory.transcript.message_store import Recent
from memory.types import FoundMessage, KnownFact

STANDING_IMPORTANCE = 9
"""From here on a fact belongs in every prompt."""

FACTS = f"""
    SELECT {", ".join(passage_sources.FACT_COLUMNS)} FROM memory_fact {{index}}
    WHERE user_id = %s AND status = 'active'
        AND (is_pinned OR importance >= {STANDING_IMPORTANCE})
        AND (is_pinned OR expires_at IS NULL OR expires_at > %s)
        AND (valid_from IS NULL OR valid_from <= %s)
        AND (valid_to IS NULL OR valid_to > %s)
    ORDER BY is_pinned DESC, importance DESC, created_at, id
    LIMIT %s
"""  # noqa: S608
BY_INDEX = "INDEXED BY memory_fact_standing"
"""SQLite knows no statistics here and would look at all facts of the user."""
MESSAGES = """
    SELECT id, position, role, text, agent, importance, created_at
    FROM memory_message
    WHERE thread_id = %s AND position < %s AND importance >= %s {outstanding}
        AND role IN ('user', 'assistant') AND text <> ''
    ORDER BY position DESC LIMIT %s
"""
OUTSTANDING = 0.5
"""Above it messages are few; the partial index of them is used for its own words."""


def facts(user_id: UserId, *, limit: int) -> list[KnownFact]:
    """Return the facts every prompt has: pinned ones, then the most important.

    Always in the same order, so that providers can reuse the prompt's beginning.
    """
    if not limit:
        return []
    now = connection.ops.adapt_datetimefield_value(datetime.now(UTC))
    query = FACTS.format(index=BY_INDEX if connection.vendor == "sqlite" else "")
    found = _rows(query, [passage_sources.key_of(user_id), now, now, now, limit])
    return list(map(passage_sources.fact_of, found))


def messages(recent: Recent, thread: str, settings: MemoryConfig) -> list[FoundMessage]:
    """Return a thread's important messages from before the newest ones."""
    if recent.thread_id is None or not recent.first_position:
        return []
    least = settings.salience_threshold
    query = MESSAGES.format(
        outstanding=f"AND importance > {OUTSTANDING}" if least > OUTSTANDING else ""
    )
    place = [recent.thread_id, recent.first_position]
    found = _rows(query, [*place, least, settings.salience_limit])
    return [
        FoundMessage(
            *(number, thread, position, role, text, agent, importance),
            passage_sources.aware(created_at),
        )
        for number, position, role, text, agent, importance, created_at in found
    ]


def _rows(query: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
