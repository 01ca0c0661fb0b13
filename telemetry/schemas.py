"""Response models of turns, used only for the API description.

`telemetry.presentation.turn_serializers` writes the responses.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from core.trace import ToolKind
from telemetry.types import Outcome


class TurnUsage(BaseModel):
    input_tokens: int = Field(description="The whole prompt, cached tokens included.")
    output_tokens: int = Field(description="Reasoning included.")
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


Cost = Annotated[
    float | None, Field(description="US dollars; null if a price is unknown.")
]


class AttemptObject(BaseModel):
    endpoint: str = Field(description="Empty if the provider has only one.")
    seconds: float = Field(description="Time until the reply began or failed.")
    error: str | None = Field(description="Null for the successful attempt.")


class ModelCallObject(BaseModel):
    object: Literal["model_call"]
    agent: str
    provider: str
    model: str
    started_at: datetime
    seconds: float | None = Field(description="Null if it was interrupted.")
    finish_reason: str | None
    error: str | None
    usage: TurnUsage | None = Field(description="Null if it failed.")
    cost_usd: Cost
    attempts: list[AttemptObject] = Field(
        description="Every HTTP request of the call; empty if the first succeeded."
    )


class ToolCallObject(BaseModel):
    object: Literal["tool_call"]
    id: str | None = Field(description="The id that the model gave the call.")
    name: str
    kind: ToolKind
    target: str | None = Field(
        description="The MCP server or the agent that was called, if any."
    )
    arguments: str = Field(description="JSON, as the model wrote it.")
    started_at: datetime
    seconds: float | None = Field(description="Null if it was interrupted.")
    result: str | None = Field(description="Null if it failed or was interrupted.")
    error: str | None
    calls: "list[ModelCallObject | ToolCallObject]" = Field(
        description="The calls made within it."
    )


class TurnBaseObject(BaseModel):
    id: str = Field(description="A UUID.")
    object: Literal["turn"]
    completion_id: str = Field(
        description="The `id` of the reply that the client received."
    )
    user_id: str
    thread_id: str | None
    agent: str = Field(
        description="The agent that answered; for an experiment, the variant."
    )
    experiment: str | None = Field(description="The experiment that the client named.")
    variant: str | None = Field(description="The agent, if an experiment chose it.")
    origin: Literal["chat", "task"]
    user_message: str
    stream: bool
    started_at: datetime
    seconds: float
    outcome: Outcome
    finish_reason: str | None
    usage: TurnUsage
    cost_usd: Cost
    request_id: str | None = Field(description="The client's id of the request.")
    error: str | None


class ListedTurn(TurnBaseObject):
    model_calls: int = Field(description="Number of model calls at every depth.")
    tool_calls: int = Field(description="Number of tool calls at every depth.")


class TurnObject(TurnBaseObject):
    recalled: list[str] = Field(description="The ids of the facts in the prompt.")
    calls: list[ModelCallObject | ToolCallObject] = Field(
        description="In order of their start."
    )


class TurnList(BaseModel):
    object: Literal["list"]
    data: list[ListedTurn]
    has_more: bool
    first_id: str | None
    last_id: str | None
