"""`forget_memory`: forgets facts that the user agreed to forget.

A call stores and returns what would be forgotten. The agent asks the user, and calls it
again in a later turn, after their answer. An MCP client asks its user itself.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field, model_validator

from agents.function_tools import ToolArguments
from core.errors import Invalid
from core.ids import TurnId, UserId
from database import database_executor
from memory.facts import fact_selection, forgetting, public_ids
from memory.facts.fact_selection import SelectedFact

NAME = "forget_memory"
DESCRIPTION = (
    "Forget facts about the user. The first call returns what would be forgotten: tell "
    "the user, and ask. After they have agreed in a later message, call it again with "
    "confirmed: true and nothing else."
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
        given = (self.id is not None, self.query is not None, self.all, self.confirmed)
        if sum(given) != 1:
            raise ValueError("give one of id, query, all and confirmed")
        return self


@dataclass(frozen=True, slots=True)
class Asking:
    """The turn in which an agent may ask, or read the answer."""

    turn_id: TurnId
    thread: str
    is_of_user: bool
    """Whether the turn's message is the user's own."""


@dataclass(frozen=True, slots=True)
class ForgetTool:
    user_id: UserId
    by: str
    asking: Asking | None
    """None for an MCP client: the call itself is the answer."""

    async def call(self, arguments: ForgetArguments) -> Any:
        """Return what was or would be forgotten."""
        if arguments.confirmed:
            return {"forgotten": await self._forget_answered()}
        found = await self._select(arguments)
        if self.asking is None:
            return await self._forget_now([fact.public_id for fact in found])
        shown = [
            {"id": fact.public_id, "content": fact.content}
            for fact in found[:MAX_SHOWN]
        ]
        if not found:
            return {"would_forget": [], "next": "Nothing was found: tell the user."}
        await database_executor.run_to_end(
            fact_selection.ask,
            self.user_id,
            self.asking.thread,
            self.asking.turn_id,
            [fact.public_id for fact in found],
            datetime.now(UTC),
        )
        return {
            "would_forget": shown,
            "count": len(found),
            "next": "Nothing is forgotten yet. Ask the user whether to forget this.",
        }

    async def _select(self, arguments: ForgetArguments) -> list[SelectedFact]:
        fact_id = None
        if arguments.id is not None:
            fact_id = public_ids.read_fact_id(arguments.id)
        return await database_executor.run(
            fact_selection.select, self.user_id, fact_id=fact_id, query=arguments.query
        )

    async def _forget_answered(self) -> list[str]:
        if self.asking is None:
            raise Invalid("nothing has to be confirmed here: give an id")
        if not self.asking.is_of_user:
            raise Invalid("only a message of the user can confirm it")
        forgotten = await database_executor.run_to_end(
            fact_selection.forget_answered,
            self.user_id,
            self.asking.thread,
            self.asking.turn_id,
            datetime.now(UTC),
            by=self.by,
        )
        if not forgotten:
            raise Invalid(
                "the user has not answered a question about this yet, or more than 15 "
                "minutes have passed: call it without confirmed, and ask in your reply"
            )
        return forgotten

    async def _forget_now(self, fact_ids: list[str]) -> Any:
        await database_executor.run_to_end(
            forgetting.forget_all,
            self.user_id,
            list(map(public_ids.require_fact_id, fact_ids)),
            by=self.by,
        )
        return {"forgotten": fact_ids}
