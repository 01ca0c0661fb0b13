"""Search in a user's memory as a turn would do it, for operators.

For synchronous code: the studio's pages and commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from config import live
from core.ids import UserId
from memory import memory_settings
from memory.facts.types import AnyCategory
from memory.models import Fact
from memory.recall import query_preparation, search
from memory.recall.context import turn_context
from memory.recall.context.turn_context import ContextQuery
from memory.recall.query_embedding import MAX_WAIT_SECONDS, FactVector
from memory.recall.query_preparation import PreparedQuery
from memory.recall.search import FactHit
from memory.recall.types import Fusion, MessageHit
from providers import sync_bridge

SearchScope = Literal["facts", "messages", "all"]

MAX_CONTEXT_TOKENS = 8_000
"""Tokens of the conversation that are assumed to be in the prompt already."""
TIMEOUT_SECONDS = MAX_WAIT_SECONDS + 3.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The results of a search, and its method."""

    prepared: PreparedQuery
    facts: list[FactHit]
    messages: list[MessageHit]


def search_memory(
    user_id: UserId,
    text: str,
    *,
    scope: SearchScope = "facts",
    category: AnyCategory | None = None,
    fusion: Fusion | None = None,
    limit: int = 10,
) -> SearchResult:
    """Return the facts and past messages that fit a text best."""
    prepared = sync_bridge.run_sync(
        query_preparation.prepare_query(text, fusion=fusion),
        timeout_seconds=TIMEOUT_SECONDS,
    )
    found = search.search_facts_and_messages(
        user_id,
        prepared.query,
        facts=0 if scope == "messages" else limit,
        messages=0 if scope == "facts" else limit,
        category=category,
    )
    return SearchResult(prepared, *found)


def memory_prompt(user_id: UserId, result: SearchResult, thread: str = "") -> str:
    """Return the user's rules and memory prompt; "" if no agent remembers users."""
    memory = memory_settings.resolve_for_users(live.current())
    if memory is None:
        return ""
    context_query = ContextQuery(
        thread, MAX_CONTEXT_TOKENS, memory.memory, recall_query=result.prepared.query
    )
    context = turn_context.load_context(user_id, context_query)
    return "\n\n".join(filter(None, (context.rules, context.memory_prompt)))


def embed_fact(content: str, category: str) -> FactVector:
    """Return the vector of a fact that is about to be saved."""
    return sync_bridge.run_sync(
        query_preparation.embed_fact(content, category), timeout_seconds=TIMEOUT_SECONDS
    )


def embed_changed_fact(fact: Fact, changes: Mapping[str, Any]) -> FactVector:
    """Return the vector of a changed fact, as the API computes it."""
    return sync_bridge.run_sync(
        query_preparation.embed_changed_fact(fact, changes),
        timeout_seconds=TIMEOUT_SECONDS,
    )
