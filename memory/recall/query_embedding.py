"""What a turn asks of its user's memory."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from core.errors import CoulisseError, Upstream
from core.messages import Message
from memory.memory_settings import UserMemory
from memory.recall import passages
from memory.types import Embedded, Query
from providers.embeddings import embedders
from providers.embeddings.base import Embedder

MAX_QUERY_LENGTH = 4000
"""Characters to search by; a longer message is searched by its end."""
MAX_WAIT_SECONDS = 2.0
"""A turn waits no longer for an embedding: it recalls by words alone instead."""
RETRY_SECONDS = 15.0
"""An API that kept a turn waiting is not asked by the next ones for so long."""
LOG_INTERVAL_SECONDS = 60.0
"""An embedder that stays down is said to be so once in this time."""
NO_VECTOR = "the embedder did not answer in time"
"""Why a fact has no vector yet; it gets one later."""

logger = logging.getLogger(__name__)

_unavailable_until: dict[str, float] = {}
"""When to ask an embedder again that did not answer, by its id."""
_warned_at = -LOG_INTERVAL_SECONDS


class FactVector(NamedTuple):
    """A fact's vector, or why it has none."""

    embedded: Embedded | None
    error: str = ""


async def build_query(memory: UserMemory | None, text: str) -> Query:
    """Return what to search by; without a plan, or its embedder, words alone."""
    text = text.strip()[-MAX_QUERY_LENGTH:]
    if memory is None:
        return Query(text)
    return Query(
        text,
        embedded=await _try_embed(memory.embedder, text, query=True),
        similarity_threshold=memory.embedder.floor,
        fusion=memory.user_state.fusion,
    )


async def embed_fact(memory: UserMemory | None, content: str) -> FactVector:
    """Return the vector a fact is found by; without a plan, none and no reason."""
    if memory is None:
        return FactVector(None)
    text = passages.strip_subject(content)
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
    # One on this machine is busy, not away.
    if not embedder.is_offline:
        _unavailable_until[embedder.id] = time.monotonic() + RETRY_SECONDS
    _warn(embedder, reason)


def _warn(embedder: Embedder, reason: str) -> None:
    global _warned_at
    now = time.monotonic()
    if now - _warned_at >= LOG_INTERVAL_SECONDS:
        _warned_at = now
        logger.warning("embedder %s: %s; recalling by words alone", embedder.id, reason)
