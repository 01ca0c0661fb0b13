"""Queries and facts from clients outside of turns, with their vectors."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from access.audit.audit_events import AuditEvent
from config import live
from core.errors import CoulisseError
from memory import memory_settings
from memory.config import UserState
from memory.facts import public_ids
from memory.facts.types import SaveResult
from memory.recall import query_embedding
from memory.recall.query_embedding import FactVector
from memory.recall.types import Fusion, Query
from providers.embeddings import embedders

logger = logging.getLogger(__name__)

OFF = "off"
"""No agent remembers users, so nothing is embedded."""
FAILED = "failed"
"""The embedder did not answer in time, or had nothing to embed."""


class PreparedQuery(NamedTuple):
    """A query, and how it is embedded."""

    query: Query
    embedding: str
    """The embedder's id; `OFF` or `FAILED` if only words are searched."""


async def prepare_query(text: str, *, fusion: Fusion | None = None) -> PreparedQuery:
    """Return a query; `fusion` overrides the configured one."""
    users = memory_settings.resolve_for_users(live.current())
    query = await query_embedding.build_query(users, text)
    if fusion is not None:
        query = replace(query, fusion=fusion)
    if users is None:
        return PreparedQuery(query, OFF)
    return PreparedQuery(query, users.embedder.id if query.embedded else FAILED)


async def embed_fact(content: str, category: str) -> FactVector:
    """Return the vector of a fact that is about to be saved."""
    return await query_embedding.embed_fact(
        memory_settings.resolve_for_users(live.current()), content, category
    )


class EmbeddedFact(Protocol):
    """A row of a fact, which async code does not read from its table."""

    category: str
    content: str

    @property
    def is_rule(self) -> bool: ...


async def embed_changed_fact(
    fact: EmbeddedFact, changes: Mapping[str, Any]
) -> FactVector:
    """Return the vector of a changed fact; none if its passage stays as it is.

    A new text has no vector yet, nor has what was a rule; a restored text may have lost
    it.
    """
    category = changes.get("category", fact.category)
    if not fact.is_rule and "content" not in changes and "status" not in changes:
        return FactVector(None)
    return await embed_fact(changes.get("content", fact.content), category)


def with_saved_fact(event: AuditEvent) -> Callable[[list[SaveResult]], AuditEvent]:
    """Return a function that adds the saved fact to an audit event."""

    def add_fact(saved: list[SaveResult]) -> AuditEvent:
        (result,) = saved
        details = {**event.details, "outcome": result.outcome}
        return replace(
            event, target=public_ids.format_fact_id(result.fact_id), details=details
        )

    return add_fact


def dedup_threshold() -> float:
    """Return the similarity from which a new fact is compared with a stored one."""
    users = memory_settings.resolve_for_users(live.current())
    state = UserState() if users is None else users.user_state
    return state.dedup_threshold


def warm() -> None:
    """Preload a local embedder; call it from a thread."""
    try:
        users = memory_settings.resolve_for_users(live.current())
        if users is not None:
            embedders.preload(users.embedder)
    except CoulisseError as exc:
        logger.warning("%s; searching by words only", exc)
