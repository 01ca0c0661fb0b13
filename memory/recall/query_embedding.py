"""Queries of a turn to its user's memory, with their vectors."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from core.errors import CoulisseError, Upstream
from core.messages import Message
from memory.memory_settings import UserMemory
from memory.recall.index import tokenizer
from memory.recall.types import Embedded, Query
from providers.embeddings import embedders
from providers.embeddings.base import Embedder

MAX_QUERY_LENGTH = 4000
"""Characters of a query; of a longer message, the end is used."""
MAX_WAIT_SECONDS = 2.0
"""Maximum seconds a turn waits for an embedding; then it recalls by words only."""
RETRY_SECONDS = 15.0
"""Seconds for which later turns skip an API that did not answer."""
LOG_INTERVAL_SECONDS = 60.0
"""Seconds between log messages about an unavailable embedder."""
NO_VECTOR = "the embedder did not answer in time"
"""The reason of a missing vector that is added later."""

logger = logging.getLogger(__name__)

_unavailable_until: dict[str, float] = {}
"""When to retry an unavailable embedder, by its id."""
_warned_at = -LOG_INTERVAL_SECONDS


class FactVector(NamedTuple):
    """A fact's vector, or the reason if it has none."""

    embedded: Embedded | None
    error: str = ""


async def build_query(memory: UserMemory | None, text: str) -> Query:
    """Return the query of a turn; without memory or its embedder, words only."""
    text = text.strip()[-MAX_QUERY_LENGTH:]
    if memory is None:
        return Query(text)
    return Query(
        text,
        embedded=await _try_embed(memory.embedder, text, query=True),
        similarity_threshold=memory.embedder.similarity_threshold,
        fusion=memory.user_state.fusion,
    )


async def embed_fact(
    memory: UserMemory | None, content: str, category: str
) -> FactVector:
    """Return a fact's vector; neither a vector nor a reason for rules, which are not
    searched, and without memory."""
    if memory is None or category == "rule":
        return FactVector(None)
    text = tokenizer.strip_subject(content)
    embedded = await _try_embed(memory.embedder, text, query=False)
    return FactVector(embedded, "" if embedded is not None else NO_VECTOR)


def last_user_text(messages: Sequence[Message]) -> str:
    """Return the last user message that has text, or ""."""
    for message in reversed(messages):
        if message.role == "user" and (text := message.text.strip()):
            return text
    return ""


async def _try_embed(embedder: Embedder, text: str, *, query: bool) -> Embedded | None:
    if not text or time.monotonic() < _unavailable_until.get(embedder.id, 0.0):
        return None
    try:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            rows = await embedders.embed_texts(embedder, [text], query=query)
    except TimeoutError:
        _mark_unavailable(embedder, f"did not answer within {MAX_WAIT_SECONDS:g} s")
        return None
    except Upstream as exc:
        _mark_unavailable(embedder, str(exc))
        return None
    except CoulisseError as exc:
        _warn(embedder, str(exc))
        return None
    return Embedded(embedder.id, rows[0]) if rows[0].any() else None


def _mark_unavailable(embedder: Embedder, reason: str) -> None:
    # A local embedder is busy, not unavailable.
    if not embedder.is_offline:
        _unavailable_until[embedder.id] = time.monotonic() + RETRY_SECONDS
    _warn(embedder, reason)


def _warn(embedder: Embedder, reason: str) -> None:
    global _warned_at
    now = time.monotonic()
    if now - _warned_at >= LOG_INTERVAL_SECONDS:
        _warned_at = now
        logger.warning("embedder %s: %s; searching by words only", embedder.id, reason)
