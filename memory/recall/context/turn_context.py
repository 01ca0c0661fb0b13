"""The context of a turn in one read: recent messages and recalled memories.

Messages are selected in three ways, each at most once: the newest (recency), the
important ones (salience) and those similar to the question (relevance). Source:
"Tri-Hybrid Retrieval" of a SQLite agent memory.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import chain
from typing import Any

from core import token_estimates
from core.ids import TurnId, UserId
from core.messages import Message
from memory.config import USER_SCOPE, MemoryConfig, UserState
from memory.extraction import date_parsing
from memory.models import (
    AgentState,
    Fact,
    FactCategory,
    Session,
    StoredMessage,
    Summary,
)
from memory.recall import search
from memory.recall.context import catch_up, memory_prompt
from memory.recall.context.catch_up import CatchUp
from memory.recall.context.memory_prompt import NO_RULES, PromptMemories
from memory.recall.types import MessageHit, Query
from memory.transcript import message_store, stored_replies
from memory.transcript.message_store import RecentMessages, ThreadHistory
from telemetry.types import Diagnostics

SUMMARY_FRACTION = 4
"""Summaries take at most 1/n of a conversation's tokens."""

MIN_SUMMARY_TOKENS = 50
"""Few summaries have fewer tokens; this limits how many are read."""


@dataclass(frozen=True, slots=True)
class StateQuery:
    """Reads the state of an agent in the thread."""

    agent: str
    render: Callable[[Mapping[str, Any]], str]
    """Returns the part of the prompt with these values."""


@dataclass(frozen=True, slots=True)
class ContextQuery:
    thread: str
    max_tokens: int
    """The limit for messages, summaries and memories together."""
    settings: MemoryConfig
    mid_exchange: bool = False
    recall_query: Query | None = None
    """The query for recall; None recalls nothing."""
    client_sends_history: bool = False
    """The client sends the conversation itself; only facts are looked up."""
    continues: TurnId | None = None
    """The turn whose reply the new messages follow; None: the thread's newest."""
    sent_replies: Sequence[bytes] = ()
    """The digests of replies that the client sends, to read what it does not have."""
    time_zone: str = ""
    """The user's IANA time zone, used for dates; "" is UTC."""
    scope: str = USER_SCOPE
    """The scope of what is recalled."""
    begins_conversation: bool = False
    """Whether the client, which keeps the conversation, begins one."""
    state: StateQuery | None = None
    """None for agents without a state."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Gets what was read, and how long it took."""

    @property
    def needs_reading(self) -> bool:
        return (
            not self.client_sends_history
            or self.recall_query is not None
            or bool(self.sent_replies)
            or self.state is not None
        )


@dataclass(frozen=True, slots=True)
class Context:
    messages: Sequence[Message]
    """The conversation, oldest first."""
    memory_prompt: str = ""
    """The memories for the prompt, or ""."""
    facts: Sequence[uuid.UUID] = ()
    """The user's facts in the prompt, rules and the last episode included."""
    catch_up: str = ""
    """The part of a session's first prompt about the last one, or ""."""
    replies: Mapping[bytes, Sequence[Message]] = field(default_factory=dict)
    """The stored messages of replies that the client sent, by digest."""
    rules: str = ""
    """How the user wants to be answered, or ""."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The values of the agent's state."""
    state_prompt: str = ""
    """The state for the prompt, or ""."""


def load_context(user_id: UserId, query: ContextQuery) -> Context:
    """Load the context of a turn: the conversation and, if requested, memories.

    Raises `ReplyUnknown`.
    """
    if query.state is not None:
        return _load_with_state(user_id, query, query.state)
    started = time.perf_counter()
    context = _load_conversation_and_memories(user_id, query)
    query.diagnostics.history = len(context.messages)
    query.diagnostics.read_seconds = time.perf_counter() - started
    if not query.sent_replies:
        return context
    replies = stored_replies.read_replies(user_id, query.thread, query.sent_replies)
    return replace(context, replies=replies)


def _load_with_state(
    user_id: UserId, query: ContextQuery, state_query: StateQuery
) -> Context:
    row = AgentState.objects.of_thread(user_id, query.thread, state_query.agent)
    values = {} if row is None else row.values
    prompt = state_query.render(values)
    max_tokens = query.max_tokens - token_estimates.estimate_text(prompt)
    context = load_context(user_id, replace(query, state=None, max_tokens=max_tokens))
    return replace(context, state=values, state_prompt=prompt)


def _load_conversation_and_memories(user_id: UserId, query: ContextQuery) -> Context:
    state = query.settings.user_state
    known, reserved, rules = None, 0, NO_RULES
    if query.recall_query is not None and state is not None:
        known = Fact.objects.in_every_prompt(
            user_id, limit=state.pinned_facts, scope=query.scope
        )
    if known is not None and state is not None:
        rules = memory_prompt.render_rules(known.rules)
        reserved = state.block_tokens + token_estimates.estimate_text(rules.text)
    conversation = _read_thread(user_id, query)
    summaries: list[str] = []
    if conversation is not None and conversation.summarized_until:
        summaries = _newest_summaries(
            conversation.thread_id, query.max_tokens // SUMMARY_FRACTION
        )
        query.diagnostics.summaries = len(summaries)
        reserved += sum(map(token_estimates.estimate_text, summaries))
    caught_up = CatchUp()
    if known is not None and _begins_session(query, conversation):
        caught_up = catch_up.read(user_id, query.scope, query.time_zone)
        reserved += catch_up.MAX_TOKENS if caught_up.text else 0
    recent = _recent_messages(conversation, query, query.max_tokens - reserved)
    if known is None or query.recall_query is None or state is None:
        prompt = memory_prompt.render(PromptMemories(summaries=summaries), 0)
        return Context(recent.messages, prompt.text)
    memories = _recall(user_id, query, query.recall_query, state, recent)
    # The catch-up has it already.
    others = [each for each in memories.facts if each.id != caught_up.episode]
    memories = replace(memories, pinned=known.facts, facts=others, summaries=summaries)
    zone = date_parsing.get_zone(query.time_zone) if query.time_zone else UTC
    text, facts, quotes = memory_prompt.render(memories, state.block_tokens, zone)
    episodes = [caught_up.episode] if caught_up.episode else []
    diagnostics = query.diagnostics
    diagnostics.facts, diagnostics.rules = len(facts), len(rules.facts)
    diagnostics.quotes, diagnostics.episodes = quotes, len(episodes)
    return Context(
        recent.messages,
        text,
        [*rules.facts, *facts, *episodes],
        caught_up.text,
        rules=rules.text,
    )


def _begins_session(query: ContextQuery, conversation: ThreadHistory | None) -> bool:
    """Return whether the turn is the first of a session, which has a catch-up."""
    sessions = query.settings.sessions
    if sessions is None or not sessions.catch_up or query.recall_query is None:
        return False
    if query.client_sends_history:
        return query.begins_conversation
    return conversation is None or not conversation.is_in_session


def _read_thread(user_id: UserId, query: ContextQuery) -> ThreadHistory | None:
    if query.client_sends_history:
        return None
    if query.continues is not None:
        return stored_replies.read_until(user_id, query.continues)
    cap = query.settings.working_memory_cap
    return message_store.read_thread(user_id, query.thread, cap=cap)


def _recent_messages(
    conversation: ThreadHistory | None, query: ContextQuery, max_tokens: int
) -> RecentMessages:
    if conversation is None:
        return RecentMessages([])
    return conversation.recent(
        max_tokens=max_tokens,
        mid_exchange=query.mid_exchange,
        limit=query.settings.recency_limit,
    )


def _recall(
    user_id: UserId,
    context_query: ContextQuery,
    query: Query,
    state: UserState,
    recent: RecentMessages,
) -> PromptMemories:
    settings = context_query.settings
    found_facts, similar = search.search_facts_and_messages(
        user_id,
        query,
        facts=state.recall_k,
        messages=0 if context_query.client_sends_history else settings.relevance_limit,
        cutoff=None
        if recent.thread_id is None
        else (recent.thread_id, recent.first_position),
        scope=context_query.scope,
        diagnostics=context_query.diagnostics,
    )
    important: list[MessageHit] = []
    if recent.thread_id is not None and recent.first_position:
        important = StoredMessage.objects.important(
            recent.thread_id,
            before=recent.first_position,
            min_importance=settings.salience_threshold,
            limit=settings.salience_limit,
        )
    facts = [found.fact for found in found_facts]
    return PromptMemories(
        facts=_without_own_episodes(facts, recent.thread_id),
        messages=_drop_duplicates(chain(important, similar)),
    )


def _without_own_episodes(facts: list[Fact], thread_id: int | None) -> list[Fact]:
    """Return the facts without episodes of the thread, whose messages the prompt has,
    or summaries of them."""
    episodes = [fact.id for fact in facts if fact.category == FactCategory.EPISODE]
    if not episodes or thread_id is None:
        return facts
    own = Session.objects.filter(thread_id=thread_id, episode__in=episodes)
    own_ids = set(own.values_list("episode", flat=True))
    return [fact for fact in facts if fact.id not in own_ids]


def _drop_duplicates(messages: Iterable[MessageHit]) -> list[MessageHit]:
    return list({message.id: message for message in messages}.values())


def _newest_summaries(thread_id: int, max_tokens: int) -> list[str]:
    """Return the newest summaries that fit, oldest first."""
    summaries: list[str] = []
    # Empty ones told a forgotten fact, and are written again.
    rows = Summary.objects.filter(thread_id=thread_id).exclude(text="")
    rows = rows.order_by("-first_position")
    max_count = max(max_tokens, 0) // MIN_SUMMARY_TOKENS
    for text, size in rows.values_list("text", "tokens")[:max_count]:
        max_tokens -= size
        if max_tokens < 0:
            break
        summaries.insert(0, text)
    return summaries
