"""Responses about turns: each schema serializes the rows and records it describes."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
)

from api_base.field_types import NullIfEmpty
from api_base.pagination import ListPage
from core import ids
from core.errors import public_text
from core.trace import ToolKind
from telemetry.presentation.turn_serializers import to_usd
from telemetry.types import CorpusSize, Origin, Outcome, RecallPath


def _shown_error(error: str | None, info: SerializationInfo) -> str | None:
    is_for_users = bool(info.context and info.context["for_users"])
    return error and public_text(error) if is_for_users else error


Error = Annotated[str | None, PlainSerializer(_shown_error)]
"""The details of errors are for operators."""
COST_DESCRIPTION = "US dollars; null if a price is unknown."
Cost = Annotated[float | None, Field(description=COST_DESCRIPTION)]
RowCost = Annotated[
    float | None,
    BeforeValidator(to_usd),
    Field(validation_alias="cost_micro_usd", description=COST_DESCRIPTION),
]
"""The cost of a row, which is stored in micro-dollars."""
Text = Annotated[str, BeforeValidator(str)]


class RowObject(BaseModel):
    """A response that is read from a row, or from a part of a `TurnRecord`."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    @classmethod
    def serialize(cls, row: Any, *, for_users: bool = False) -> dict[str, Any]:
        """Return a row as JSON; without the details of errors for users."""
        context = {"for_users": for_users}
        return cls.model_validate(row).model_dump(mode="json", context=context)


class TurnUsage(RowObject):
    input_tokens: int = Field(description="The whole prompt, cached tokens included.")
    output_tokens: int = Field(description="Reasoning included.")
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


class AttemptObject(RowObject):
    endpoint: str = Field(description="Empty if the provider has only one.")
    seconds: float = Field(description="Time until the reply began or failed.")
    error: Error = Field(description="Null for the successful attempt.")


class ModelCallObject(RowObject):
    object: Literal["model_call"] = "model_call"
    agent: str
    provider: str
    model: str
    started_at: datetime
    seconds: float | None = Field(description="Null if it was interrupted.")
    finish_reason: NullIfEmpty
    error: Error
    usage: TurnUsage | None = Field(description="Null if it failed.")
    cost_usd: RowCost
    attempts: list[AttemptObject] = Field(
        description="Every HTTP request of the call; empty if the first succeeded."
    )


class ToolCallObject(RowObject):
    object: Literal["tool_call"] = "tool_call"
    id: NullIfEmpty = Field(description="The id that the model gave the call.")
    name: str
    kind: ToolKind
    target: NullIfEmpty = Field(
        description="The MCP server or the agent that was called, if any."
    )
    arguments: str = Field(description="JSON, as the model wrote it.")
    started_at: datetime
    seconds: float | None = Field(description="Null if it was interrupted.")
    result: str | None = Field(description="Null if it failed or was interrupted.")
    error: Error
    calls: "list[ModelCallObject | ToolCallObject]" = Field(
        description="The calls made within it."
    )


def _completion_id(turn_id: UUID | str) -> str:
    return turn_id if isinstance(turn_id, str) else ids.format_completion_id(turn_id)


Seconds = Annotated[float | None, PlainSerializer(lambda s: s and round(s, 6))]


class DiagnosticsObject(RowObject):
    """The contents of a turn's prompt, and the durations of its parts."""

    recall: RecallPath = Field(description="How memories were searched.")
    corpus: Annotated[CorpusSize | None, BeforeValidator(lambda size: size or None)] = (
        Field(description="Where they were searched.")
    )
    embedder: NullIfEmpty
    history: int = Field(description="Stored messages in the prompt.")
    facts: int
    rules: int
    quotes: int = Field(description="Older messages that the prompt quotes.")
    summaries: int
    episodes: int = Field(description="1 if the prompt begins a session after others.")
    embedding_seconds: Seconds = Field(description="Until the question has a vector.")
    database_seconds: Seconds = Field(
        description="First use of the database, with the wait for it."
    )
    read_seconds: Seconds = Field(description="Of that, to read the context.")
    limits_seconds: Seconds = Field(
        description="Of that, to check limits and reserve usage; null without limits."
    )
    prepare_seconds: Seconds = Field(description="Until the model was called.")
    first_event_seconds: Seconds = Field(
        description="Until the reply began, since the turn began."
    )
    save_seconds: Seconds = Field(
        description="From the end of the reply until the record was written."
    )


class TurnSummary(RowObject):
    """What a response about a turn has."""

    id: Text = Field(validation_alias="turn_id", description="A UUID.")
    object: Literal["turn"] = "turn"
    completion_id: Annotated[str, BeforeValidator(_completion_id)] = Field(
        validation_alias="turn_id",
        description="The `id` of the reply that the client received.",
    )
    user_id: Text
    thread_id: NullIfEmpty = Field(validation_alias="thread")
    agent: str = Field(
        description="The agent that answered; for an experiment, the variant."
    )
    experiment: NullIfEmpty = Field(description="The experiment that the client named.")
    variant: str | None = Field(description="The agent, if an experiment chose it.")
    origin: Origin
    user_message: str
    stream: bool = Field(validation_alias="is_streamed")
    started_at: datetime
    seconds: float
    outcome: Outcome
    finish_reason: NullIfEmpty
    usage: TurnUsage
    cost_usd: RowCost
    request_id: NullIfEmpty = Field(description="The client's id of the request.")


class StudioListedTurn(TurnSummary):
    """A turn of any origin, in a list."""

    error: Error
    model_calls: int = Field(description="Number of model calls at every depth.")
    tool_calls: int = Field(description="Number of tool calls at every depth.")


class StudioTurn(TurnSummary):
    """A turn of any origin, with its calls."""

    error: Error
    recalled: list[str] = Field(
        validation_alias="recalled_fact_ids",
        description="The ids of the facts in the prompt.",
    )
    diagnostics: DiagnosticsObject | None = Field(
        description="Null for turns of an earlier version."
    )
    calls: list[ModelCallObject | ToolCallObject] = Field(
        description="In order of their start."
    )


class ListedTurn(StudioListedTurn):
    origin: Literal["chat", "task", "voice"]


class TurnObject(StudioTurn):
    origin: Literal["chat", "task", "voice"]


class TurnList(ListPage[ListedTurn]):
    pass
