"""`forget_memory`: forgets facts that the user agreed to forget.

A call stores and returns what would be forgotten. The agent asks the user, and repeats
the call in a later turn, after their answer.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field, model_validator

from agents.function_tools import ToolArguments
from core.errors import Invalid
from core.ids import TurnId, UserId
from database import database_executor
from memory.facts import fact_selection, public_ids
from memory.facts.fact_selection import SelectedFact

NAME = "forget_memory"
DESCRIPTION = (
    "Forget facts about the user. The first call returns what would be forgotten: tell "
    "the user, and ask. After they have agreed in a later message, repeat the call "
    "with confirmed: true."
)
MAX_SHOWN = 20


class ForgetArguments(ToolArguments):
    id: str | None = Field(None, description="A fact's id, from search_memory.")
    query: str | None = Field(
        None,
        min_length=1,
        max_length=4000,
        description="Instead of an id: the facts that have these words.",
    )
    all: bool = Field(False, description="Instead of an id: all facts.")
    confirmed: bool = Field(
        False, description="The user has agreed to the last question."
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if sum((self.id is not None, self.query is not None, self.all)) != 1:
            raise ValueError("give one of id, query and all")
        return self


@dataclass(frozen=True, slots=True)
class ConfirmationContext:
    """The turn in which an agent may ask, or repeat the call after the answer."""

    turn_id: TurnId
    thread: str
    is_of_user: bool
    """Whether the turn's last message is the user's own."""


@dataclass(frozen=True, slots=True)
class ForgetTool:
    user_id: UserId
    by: str
    scope: str | None
    """The scope of the facts; None is any."""
    context: ConfirmationContext | None
    """None outside a turn, where the tool is only described."""

    async def call(self, arguments: ForgetArguments) -> Any:
        """Return what was or would be forgotten."""
        if self.context is None:
            raise Invalid("facts are forgotten in a turn only")
        found = await self._select(arguments)
        if not found:
            return {"would_forget": [], "next": "Nothing was found: tell the user."}
        facts = [fact.public_id for fact in found]
        if arguments.confirmed:
            return await self._forget(self.context, facts)
        await database_executor.run_to_end(
            fact_selection.store_question,
            self.user_id,
            self.context.thread,
            self.context.turn_id,
            facts,
            datetime.now(UTC),
        )
        return {
            "would_forget": [
                {"id": fact.public_id, "content": fact.content}
                for fact in found[:MAX_SHOWN]
            ],
            "count": len(found),
            "next": "Nothing is forgotten yet. Ask the user whether to forget this.",
        }

    async def _select(self, arguments: ForgetArguments) -> list[SelectedFact]:
        fact_id = None
        if arguments.id is not None:
            fact_id = public_ids.read_fact_id(arguments.id)
        return await database_executor.run(
            fact_selection.select_facts,
            self.user_id,
            fact_id=fact_id,
            query=arguments.query,
            scope=self.scope,
        )

    async def _forget(self, context: ConfirmationContext, facts: list[str]) -> Any:
        if not context.is_of_user:
            raise Invalid("only a message of the user can confirm it")
        is_forgotten = await database_executor.run_to_end(
            fact_selection.forget_confirmed,
            self.user_id,
            context.thread,
            context.turn_id,
            facts,
            datetime.now(UTC),
            by=self.by,
        )
        if not is_forgotten:
            raise Invalid(
                "the user was not asked about this in an earlier message of the last "
                "15 minutes: call it without confirmed, and ask in your reply"
            )
        return {"forgotten": facts}
