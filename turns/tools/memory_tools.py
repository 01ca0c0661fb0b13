"""The tools with which an agent manages the facts about its user.

Each tool is bound to one turn and its user; no argument from the model can select
another user's memory.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from pydantic import Field

from agents.function_tools import FunctionTool, ToolArguments, json_tool
from core.errors import Invalid
from core.ids import UserId
from core.text.sanitization import escape_and_truncate
from core.trace import Call, TracedToolCall
from database import database_executor
from memory.config import UserState
from memory.errors import FactUnknown
from memory.extraction.injection import injection_filter
from memory.facts import fact_store, forgetting, public_ids
from memory.facts.types import MAX_CONTENT_LENGTH, Category, FactDraft
from memory.memory_settings import UserMemory
from memory.recall import query_embedding, search
from memory.recall.types import MessageHit
from memory.transcript.withholding import NO_FACTS, TouchedFacts

SAVE, UPDATE, FORGET = "save_memory", "update_memory", "forget_memory"
MAX_SEARCH_LIMIT = 20
MAX_TEXT_LENGTH = 1000
"""Maximum characters of a message that the model receives."""


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


class SaveArguments(ToolArguments):
    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT_LENGTH,
        description="One fact about the user as a sentence that stands alone, with "
        "absolute dates.",
    )
    category: Category = Field("general", description="The kind of fact.")
    importance: int = Field(
        5, ge=1, le=10, description="From 1 (trivial) to 10 (critical)."
    )
    key: str | None = Field(
        None,
        max_length=255,
        description="A name for a fact with a single value, such as 'home_city': a "
        "new fact with the same key and category replaces it.",
    )


class UpdateArguments(ToolArguments):
    id: str = Field(description="The fact's id, from search_memory.")
    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT_LENGTH,
        description="The current fact, as a sentence that stands alone.",
    )


class ForgetArguments(ToolArguments):
    id: str = Field(description="The fact's id, from search_memory.")


def make_tools(
    user_id: UserId, agent: str, memory: UserMemory | None, *, by: str = ""
) -> list[FunctionTool]:
    """Return the four tools for one user; without `memory`, search uses words only.

    `by` is the author of the changes in a fact's history, if it is not the agent.
    """
    handlers = _MemoryToolHandlers(user_id, by or f"agent:{agent}", agent, memory)
    tool = partial(json_tool, "memory")
    return [
        tool(
            "search_memory",
            "Search the facts about the user and the messages of earlier "
            "conversations. Use it when the answer may lie in the past: preferences, "
            "people, events, appointments, decisions.",
            SearchArguments,
            handlers.search,
        ),
        tool(
            SAVE,
            "Remember one fact about the user, because they asked for it or because "
            "it will matter in later conversations.",
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
            FORGET,
            "Forget a fact about the user that search_memory found, because they "
            "asked for it or because it is wrong.",
            ForgetArguments,
            handlers.forget,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _MemoryToolHandlers:
    user_id: UserId
    by: str
    agent: str
    memory: UserMemory | None

    @property
    def _threshold(self) -> float:
        state = UserState() if self.memory is None else self.memory.user_state
        return state.dedup_threshold

    async def search(self, arguments: SearchArguments) -> Any:
        query = await query_embedding.build_query(self.memory, arguments.query)
        facts, messages = await database_executor.run(
            search.search_facts_and_messages,
            self.user_id,
            query,
            facts=arguments.limit,
            messages=arguments.limit,
        )
        return {
            "facts": [_serialize_fact(each.fact) for each in facts],
            "messages": list(map(_serialize_message, messages)),
        }

    async def save(self, arguments: SaveArguments) -> Any:
        draft = FactDraft(
            arguments.content,
            category=arguments.category,
            importance=arguments.importance,
            key=arguments.key,
            source="agent",
            agent=self.agent,
            # An injected prompt could make the model store instructions for itself.
            review_reason=injection_filter.find_injection(arguments.content, ""),
        )
        vector = await query_embedding.embed_fact(self.memory, arguments.content)
        (saved,) = await database_executor.run_to_end(
            fact_store.save_drafts,
            self.user_id,
            [draft],
            [vector.embedded],
            by=self.by,
            threshold=self._threshold,
            errors=[vector.error],
        )
        return {
            "id": public_ids.format_fact_id(saved.fact_id),
            "outcome": saved.outcome,
        }

    async def update(self, arguments: UpdateArguments) -> Any:
        if injection_filter.find_injection(arguments.content, ""):
            raise Invalid("content looks like an instruction, not like a fact")
        vector = await query_embedding.embed_fact(self.memory, arguments.content)
        fact = await database_executor.run_to_end(
            fact_store.edit_fact,
            self.user_id,
            _parse_fact_id(arguments.id),
            {"content": arguments.content},
            by=self.by,
            text=vector,
        )
        return _serialize_fact(fact)

    async def forget(self, arguments: ForgetArguments) -> Any:
        fact_id = _parse_fact_id(arguments.id)
        await database_executor.run_to_end(
            forgetting.forget, self.user_id, fact_id, by=self.by
        )
        return {"id": arguments.id, "forgotten": True}


def touched_facts(calls: Sequence[Call]) -> TouchedFacts:
    """Return the facts that these calls of a turn saved and forgot."""
    done = [call for call in _iter_memory_calls(calls) if call.result is not None]
    if not done:
        return NO_FACTS
    saved, forgotten = (
        [
            _parse_fact_id(orjson.loads(call.result or "")["id"])
            for call in done
            # A tool whose name is taken has a prefix.
            if call.name.endswith(names)
        ]
        for names in ((SAVE, UPDATE), FORGET)
    )
    return TouchedFacts(saved, forgotten) if saved or forgotten else NO_FACTS


def _iter_memory_calls(calls: Sequence[Call]) -> Iterator[TracedToolCall]:
    for call in calls:
        if isinstance(call, TracedToolCall):
            yield from _iter_memory_calls(call.calls)
            if call.kind == "memory":
                yield call


def _parse_fact_id(name: str) -> uuid.UUID:
    fact_id = public_ids.parse_fact_id(name)
    if fact_id is None:
        raise FactUnknown(
            f"'{escape_and_truncate(name)}' is not the id of a fact: "
            "use an id from search_memory"
        )
    return fact_id


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
