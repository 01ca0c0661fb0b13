"""What would be recalled of a user for some words: as a turn would, but by an operator.

From code that is not async: the studio's pages and commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from config import live
from core.ids import UserId
from memory import memory_settings
from memory.context import turn_context
from memory.context.turn_context import Wanted
from memory.recall import query_preparation, search
from memory.recall.query_embedding import MAX_WAIT_SECONDS, Vector
from memory.recall.query_preparation import Prepared
from memory.types import Category, FoundFact, FoundMessage, Fusion
from providers import sync_bridge

Among = Literal["facts", "messages", "all"]

MOST_TOKENS = 8_000
"""Of the conversation that is taken to be in the prompt already."""
PATIENCE_SECONDS = MAX_WAIT_SECONDS + 3.0


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found, and what by."""

    prepared: Prepared
    facts: list[FoundFact]
    messages: list[FoundMessage]


def search_for(
    user_id: UserId,
    text: str,
    *,
    among: Among = "facts",
    category: Category | None = None,
    fusion: Fusion | None = None,
    limit: int = 10,
) -> Recalled:
    """Return the facts and the past messages that fit a text best."""
    prepared = sync_bridge.wait(
        query_preparation.prepare(text, fusion=fusion), timeout_seconds=PATIENCE_SECONDS
    )
    query = prepared.query
    found, said = [], []
    if among != "messages":
        found = search.facts(user_id, query, limit=limit, category=category)
    if among != "facts":
        said = search.messages(user_id, query, limit=limit)
    return Recalled(prepared, found, said)


def told(user_id: UserId, recalled: Recalled, thread: str = "") -> str:
    """Return what a prompt would say of the user; "" where nobody is remembered."""
    memory = memory_settings.of_users(live.current())
    if memory is None:
        return ""
    wanted = Wanted(thread, MOST_TOKENS, memory.memory, recall_query=recalled.prepared.query)
    return turn_context.gather(user_id, wanted).memory_prompt


def embed(content: str) -> Vector:
    """Return the vector of a fact that is about to be saved."""
    return sync_bridge.wait(
        query_preparation.embed(content), timeout_seconds=PATIENCE_SECONDS
    )


def embed_again(content: str, changes: Mapping[str, Any]) -> Vector:
    """Return the vector of a fact that changes, as `remembering` does."""
    return sync_bridge.wait(
        query_preparation.embed_again(content, changes),
        timeout_seconds=PATIENCE_SECONDS,
    )
