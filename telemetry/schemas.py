"""Response models of turns, used only for the API description.

`telemetry.presentation.turn_serializers` writes the responses.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from core.trace import ToolKind
from telemetry.types import Outcome


class TurnUsage(BaseModel):
    input_tokens: int = Field(description="The whole prompt, cached or not.")
    output_tokens: int = Field(description="Thinking included.")
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


Cost = Annotated[
    float | None, Field(description="US dollars; null where a price is not known.")
]


class AttemptObject(BaseModel):
    endpoint: str = Field(description="Empty where the provider has one.")
    seconds: float = Field(description="Until the reply began or failed.")
    error: str | None = Field(description="Null for the one that was answered.")


class ModelCallObject(BaseModel):
    object: Literal["model_call"]
    agent: str
    provider: str
    model: str
    started_at: datetime
    seconds: float | None = Field(description="Null when it was broken off.")
    finish_reason: str | None
    error: str | None
    usage: TurnUsage | None = Field(description="Null when it failed.")
    cost_usd: Cost
    attempts: list[AttemptObject] = Field(
        description="Every request it took; empty where the first was answered."
    )


class ToolCallObject(BaseModel):
    object: Literal["tool_call"]
    id: str | None = Field(description="The model's own id of the call.")
    name: str
    kind: ToolKind
    target: str | None = Field(
        description="The MCP server or the agent that was called, if one was."
    )
    arguments: str = Field(description="JSON, as the model wrote it.")
    started_at: datetime
    seconds: float | None = Field(description="Null when it was broken off.")
    result: str | None = Field(description="Null when it failed or was broken off.")
    error: str | None
    calls: "list[ModelCallObject | ToolCallObject]" = Field(
        description="What it called in its turn."
    )


class TurnBaseObject(BaseModel):
    id: str = Field(description="A UUID.")
    object: Literal["turn"]
    completion_id: str = Field(description="The `id` of the reply the client got.")
    user_id: str
    thread_id: str | None
    agent: str = Field(description="Who answered: of an experiment, the variant.")
    experiment: str | None = Field(description="What the client asked for instead.")
    variant: str | None = Field(description="The agent, where an experiment chose it.")
    origin: Literal["chat", "task"]
    user_message: str
    stream: bool
    started_at: datetime
    seconds: float
    outcome: Outcome
    finish_reason: str | None
    usage: TurnUsage
    cost_usd: Cost
    request_id: str | None = Field(description="The client's name for the request.")
    error: str | None


class ListedTurn(TurnBaseObject):
    model_calls: int = Field(description="How many, at every depth.")
    tool_calls: int = Field(description="How many, at every depth.")


class TurnObject(TurnBaseObject):
    recalled: list[str] = Field(description="The facts the agent was told, by id.")
    calls: list[ModelCallObject | ToolCallObject] = Field(
        description="In order of beginning."
    )


class TurnList(BaseModel):
    object: Literal["list"]
    data: list[ListedTurn]
    has_more: bool
    first_id: str | None
    last_id: str | None
