"""The tools with which an agent manages the facts about its user.

Each tool is bound to one turn and its user; no argument from the model can select
another user's memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any

import orjson
from pydantic import Field, Strict, WithJsonSchema

from agents.function_tools import FunctionTool, ToolArguments, json_tool
from core.errors import Invalid
from core.ids import UserId
from core.runtime import shared_clock
from core.trace import Call, TracedToolCall
from database import database_executor
from memory.config import USER_SCOPE, UserState
from memory.errors import FactUnknown
from memory.facts import fact_store, fact_validation, public_ids
from memory.facts.types import (
    MAX_CONTENT_LENGTH,
    Category,
    FactDraft,
    SearchedCategory,
)
from memory.memory_settings import UserMemory
from memory.recall import query_embedding, search
from memory.recall.types import MessageHit
from memory.transcript.withholding import NO_FACTS, TouchedFacts
from turns.tools import forget_tool
from turns.tools.forget_tool import ConfirmationContext, ForgetArguments, ForgetTool

SAVE, UPDATE = "save_memory", "update_memory"
MAX_SEARCH_LIMIT = 20
MAX_DATED = 100
"""Results of a search among which those of some days are."""
MAX_TEXT_LENGTH = 1000
"""Maximum characters of a message that the model receives."""


# Some providers refuse schemas with the format of a date.
Day = Annotated[date, Strict(False), WithJsonSchema({"type": "string"})]


class SearchArguments(ToolArguments):
    query: str = Field(
        min_length=1, max_length=4000, description="What to look for, in a few words."
    )
    limit: int = Field(
        5,
        ge=1,
        le=MAX_SEARCH_LIMIT,
        description="Maximum facts and messages to return.",
    )
    category: SearchedCategory | None = Field(
        None, description="Only facts of this kind, and no messages."
    )
    since: Day | None = Field(
        None, description="Only what is from this day (such as 2026-03-01) or later."
    )
    until: Day | None = Field(
        None, description="Only what is from this day or earlier."
    )

    @property
    def depth(self) -> int:
        """How many results are looked at to find `limit` of these days."""
        is_dated = self.since is not None or self.until is not None
        return MAX_DATED if is_dated else self.limit

    def has_day(self, at: datetime) -> bool:
        """Return whether a time, in UTC, is within the days."""
        day = at.date()
        return (self.since or day) <= day <= (self.until or day)


class SaveArguments(ToolArguments):
    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT_LENGTH,
        description="One fact about the user as a sentence that stands alone, with "
        "absolute dates; a rule as an instruction, such as 'Answer in German.'",
    )
    category: Category = Field(
        "general",
        description="The kind of fact; `rule` for how the user wants to be answered.",
    )
    importance: int = Field(
        5, ge=1, le=10, description="From 1 (trivial) to 10 (critical)."
    )
    key: str | None = Field(
        None,
        max_length=255,
        description="A name for a fact with a single value, such as 'home_city', or "
        "for what a rule is about, such as 'language' or 'length': a new fact with the "
        "same key and category replaces it.",
    )


class UpdateArguments(ToolArguments):
    id: str = Field(description="The fact's id, from search_memory.")
    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT_LENGTH,
        description="The current fact, as a sentence that stands alone.",
    )


def make_tools(
    user_id: UserId,
    agent: str,
    memory: UserMemory | None,
    *,
    by: str = "",
    scope: str | None = None,
    context: ConfirmationContext | None = None,
) -> list[FunctionTool]:
    """Return the four tools for one user; without `memory`, search uses words only.

    `by` is the author of the changes in a fact's history, if it is not the agent. With
    a `scope`, they find, save and change only what is of it.
    """
    by = by or f"agent:{agent}"
    handlers = _MemoryToolHandlers(user_id, by, agent, memory, scope)
    tool = partial(json_tool, "memory")
    return [
        tool(
            "search_memory",
            "Search the facts about the user and the messages of earlier "
            "conversations. Use it when the answer may lie in the past: preferences, "
            "people, events, appointments, decisions. Do not use it for greetings, for "
            "general knowledge, or for what this conversation already says.",
            SearchArguments,
            handlers.search,
        ),
        tool(
            SAVE,
            "Remember one fact about the user, because they asked for it or because "
            "it will matter in later conversations. Or one rule: if the user states a "
            "lasting wish on how to be answered, such as the language, the length or "
            "the tone. A wish for the answer in hand is not a rule.",
            SaveArguments,
            handlers.save,
        ),
        tool(
            UPDATE,
            "Correct a fact about the user that search_memory found.",
            UpdateArguments,
            handlers.update,
        ),
        tool(
            forget_tool.NAME,
            forget_tool.DESCRIPTION,
            ForgetArguments,
            ForgetTool(user_id, by, scope, context).call,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _MemoryToolHandlers:
    user_id: UserId
    by: str
    agent: str
    memory: UserMemory | None
    scope: str | None
    """None is any; new facts are then of the widest."""
    begun_at: datetime = field(default_factory=shared_clock.now)
    """When the turn began."""

    @property
    def _state(self) -> UserState:
        return UserState() if self.memory is None else self.memory.user_state

    async def search(self, arguments: SearchArguments) -> Any:
        query = await query_embedding.build_query(self.memory, arguments.query)
        facts, messages = await database_executor.run(
            search.search_for_agent,
            self.user_id,
            query,
            facts=arguments.depth,
            messages=0 if arguments.category is not None else arguments.depth,
            category=arguments.category,
            scope=self.scope,
        )
        said = [each.fact for each in facts if arguments.has_day(each.fact.said_at)]
        written = [each for each in messages if arguments.has_day(each.created_at)]
        return {
            "facts": list(map(_serialize_fact, said[: arguments.limit])),
            "messages": list(map(_serialize_message, written[: arguments.limit])),
        }

    async def save(self, arguments: SaveArguments) -> Any:
        draft = FactDraft(
            arguments.content,
            category=arguments.category,
            importance=arguments.importance,
            key=arguments.key,
            source="agent",
            agent=self.agent,
            scope=self.scope or USER_SCOPE,
            # An injected prompt could make the model store instructions for itself.
            review_reason=fact_validation.find_review_reason(
                arguments.category, arguments.content
            ),
            held_for=self._state.held_for_consent,
        )
        vector = await query_embedding.embed_fact(
            self.memory, arguments.content, arguments.category
        )
        (saved,) = await database_executor.run_to_end(
            fact_store.save_drafts,
            self.user_id,
            [draft],
            [vector.embedded],
            by=self.by,
            threshold=self._state.dedup_threshold,
            errors=[vector.error],
            begun_at=self.begun_at,
        )
        return {
            "id": public_ids.format_fact_id(saved.fact_id),
            "outcome": saved.outcome,
        }

    async def update(self, arguments: UpdateArguments) -> Any:
        fact_id = public_ids.read_fact_id(arguments.id)
        stored = await database_executor.run(fact_store.get_fact, self.user_id, fact_id)
        if self.scope not in (None, stored.scope):
            raise FactUnknown
        category, content = stored.category, arguments.content
        if reason := fact_validation.find_review_reason(category, content):
            raise Invalid(f"the content {reason}; leave the fact as it is")
        vector = await query_embedding.embed_fact(self.memory, content, category)
        fact = await database_executor.run_to_end(
            fact_store.edit_fact,
            self.user_id,
            fact_id,
            {"content": arguments.content},
            by=self.by,
            text=vector,
        )
        return _serialize_fact(fact)


def touched_facts(calls: Sequence[Call]) -> TouchedFacts:
    """Return the facts that these calls of a turn saved and forgot."""
    done = [call for call in _iter_memory_calls(calls) if call.result is not None]
    if not done:
        return NO_FACTS
    saved = [
        _read_result(call)["id"] for call in done if call.name.endswith((SAVE, UPDATE))
    ]
    # A tool whose name is taken has a prefix.
    forgetting = [call for call in done if call.name.endswith(forget_tool.NAME)]
    forgotten = [
        fact_id
        for call in forgetting
        for fact_id in _read_result(call).get("forgotten", ())
    ]
    if not saved and not forgotten:
        return NO_FACTS
    read = public_ids.read_fact_id
    return TouchedFacts(list(map(read, saved)), list(map(read, forgotten)))


def _read_result(call: TracedToolCall) -> dict[str, Any]:
    result: dict[str, Any] = orjson.loads(call.result or "")
    return result


def _iter_memory_calls(calls: Sequence[Call]) -> Iterator[TracedToolCall]:
    for call in calls:
        if isinstance(call, TracedToolCall):
            yield from _iter_memory_calls(call.calls)
            if call.kind == "memory":
                yield call


def _serialize_fact(fact: Any) -> Any:
    return {
        "id": public_ids.format_fact_id(fact.id),
        "content": fact.content,
        "category": fact.category,
        "importance": fact.importance,
        "said_at": fact.said_at,
    }


def _serialize_message(message: MessageHit) -> Any:
    return {
        "said_at": message.created_at,
        "role": message.role,
        "text": message.text[:MAX_TEXT_LENGTH],
    }
