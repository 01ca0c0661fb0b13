"""The context of a turn in one trip: what was said last, what else is worth knowing.

Three ways lead into it, and no message enters twice: the newest ones (recency), the
important ones (salience) and those that resemble the question (relevance).
Source: "Tri-Hybrid Retrieval" of a SQLite agent memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from core import tokens
from core.ids import UserId
from core.messages import Message
from memory import block, facts, history, search
from memory.block import Memories
from memory.config import MemoryConfig, UserState
from memory.history import Recent
from memory.known import FoundMessage, Query
from memory.models import Message as MessageRow
from memory.models import Summary

ORDINARY = 0.5
"""Messages above it are in the index of important ones."""
SUMMARY_SHARE = 4
"""Summaries take at most one part in so many of a conversation's tokens."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a turn wants of the past."""

    thread: str
    max_tokens: int
    """For messages, summaries and memories together."""
    settings: MemoryConfig
    mid_exchange: bool = False
    recall: Query | None = None
    """What to recall the user by; None recalls nothing."""
    brings_history: bool = False
    """The client sends the conversation itself; only facts are looked up."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a turn gets of the past."""

    messages: Sequence[Message]
    """The conversation, oldest first."""
    block: str = ""
    """What else to tell the model, or ""."""


def gather(user_id: UserId, wanted: Wanted) -> Gathered:
    """Read what a turn needs: its conversation and, if wanted, what is known."""
    state = wanted.settings.user_state
    reserved = state.block_tokens if wanted.recall and state else 0
    recent = Recent([]) if wanted.brings_history else _read(user_id, wanted, reserved)
    summaries: list[str] = []
    if recent.thread_id is not None and recent.summarised:
        summaries = _summaries(recent.thread_id, wanted.max_tokens // SUMMARY_SHARE)
        reserved += sum(map(tokens.estimate, summaries))
        recent = _read(user_id, wanted, reserved)
    if wanted.recall is None or state is None:
        return Gathered(recent.messages, block.render(Memories(summaries=summaries), 0))
    settings = wanted.settings
    if wanted.brings_history:
        settings = settings.model_copy(update={"relevance_limit": 0})
    memories = _recall(user_id, wanted.recall, settings, state, recent)
    memories = Memories(memories.standing, memories.facts, memories.messages, summaries)
    return Gathered(recent.messages, block.render(memories, state.block_tokens))


def _read(user_id: UserId, wanted: Wanted, reserved: int) -> Recent:
    return history.read(
        user_id,
        wanted.thread,
        max_tokens=wanted.max_tokens - reserved,
        mid_exchange=wanted.mid_exchange,
        limit=wanted.settings.recency_limit,
        cap=wanted.settings.working_memory_cap,
    )


def _recall(
    user_id: UserId,
    query: Query,
    settings: MemoryConfig,
    state: UserState,
    recent: Recent,
) -> Memories:
    found_facts, similar = search.both(
        user_id,
        query,
        facts=state.recall_k,
        messages=settings.relevance_limit,
        beyond=None
        if recent.thread_id is None
        else (recent.thread_id, recent.first_position),
    )
    standing = (
        facts.standing(user_id, limit=state.standing_facts)
        if state.standing_facts
        else []
    )
    return Memories(
        standing=standing,
        facts=[found.fact for found in found_facts],
        messages=_distinct(chain(_important(recent, settings), similar)),
    )


def _distinct(messages: Iterable[FoundMessage]) -> list[FoundMessage]:
    return list({message.id: message for message in messages}.values())


def _important(recent: Recent, settings: MemoryConfig) -> list[FoundMessage]:
    """Return the thread's important messages from before the newest ones."""
    if recent.thread_id is None or not recent.first_position:
        return []
    rows = (
        MessageRow.objects.filter(
            thread_id=recent.thread_id,
            position__lt=recent.first_position,
            # Said again for the partial index.
            importance__gt=ORDINARY,
            importance__gte=settings.salience_threshold,
            role__in=("user", "assistant"),
        )
        .exclude(text="")
        .order_by("-position")
        .values_list(
            *("id", "thread__name", "position", "role", "text"),
            *("agent", "importance", "created_at"),
        )[: settings.salience_limit]
    )
    return [FoundMessage(*row) for row in rows]


def _summaries(thread_id: int, max_tokens: int) -> list[str]:
    """Return the newest summaries that fit, oldest first."""
    kept: list[str] = []
    rows = Summary.objects.filter(thread_id=thread_id).order_by("-first_position")
    for text, size in rows.values_list("text", "tokens"):
        max_tokens -= size
        if max_tokens < 0:
            break
        kept.insert(0, text)
    return kept
