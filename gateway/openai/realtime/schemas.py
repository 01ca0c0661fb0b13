"""Requests of conversations by voice as pydantic models.

Source: OpenAI's API reference, "Create client secret". The provider checks the settings
of audio, which change with its models.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from access.users.request_user import CallerBody
from api_base.field_types import Metadata
from gateway.openai.responses.schemas import (
    MAX_CALL_ID_LENGTH,
    MAX_TOOLS,
    FunctionTool,
    NamedFunction,
)
from gateway.schemas import Items, StrictModel
from turns.idempotency import MAX_LENGTH as MAX_KEY_LENGTH

DEFAULT_KEY_SECONDS = 60
MAX_INSTRUCTIONS_LENGTH = 20_000
MAX_ARGUMENTS_LENGTH = 100_000

AgentName = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class KeyLifetime(StrictModel):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7200)] = DEFAULT_KEY_SECONDS


class AudioSettings(StrictModel):
    """The settings of audio, in the provider's terms."""

    input: dict[str, Any] | None = Field(
        default=None,
        description="`format`, `noise_reduction`, `transcription`, `turn_detection`.",
    )
    output: dict[str, Any] | None = Field(
        default=None, description="`format`, `speed`, `voice`."
    )


class SessionSettings(StrictModel):
    """What a client chooses of a session; the agent decides the rest."""

    type: Literal["realtime"] = "realtime"
    model: AgentName = Field(description="The agent.")
    instructions: (
        Annotated[str, StringConstraints(max_length=MAX_INSTRUCTIONS_LENGTH)] | None
    ) = Field(default=None, description="They follow those of the agent.")
    tools: Annotated[Items[FunctionTool], Field(max_length=MAX_TOOLS)] | None = Field(
        default=None, description="The client's own; those of the agent are added."
    )
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    audio: AudioSettings | None = None
    output_modalities: (
        Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)]
        | None
    ) = None
    max_output_tokens: Annotated[int, Field(ge=1, le=4096)] | Literal["inf"] | None = (
        None
    )
    include: (
        Annotated[
            list[Literal["item.input_audio_transcription.logprobs"]],
            Field(max_length=1),
        ]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | dict[str, Any] | None = None

    def passed_fields(self) -> dict[str, Any]:
        """Return the fields that go to the provider unchanged, if they are set."""
        own = {"instructions", "model", "tools"}
        return self.model_dump(exclude=own, exclude_unset=True, exclude_none=True)


class ClientSecretRequest(CallerBody):
    """Body of `POST /v1/realtime/client_secrets`."""

    session: SessionSettings
    expires_after: KeyLifetime = KeyLifetime()
    metadata: Metadata | None = Field(
        default=None, description="As in chat: `thread_id`, `language`, `memory` …"
    )


class ToolCallRequest(CallerBody):
    """Body of `POST /v1/realtime/tool_calls`."""

    model: AgentName = Field(description="The agent.")
    call_id: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_CALL_ID_LENGTH)
    ]
    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    arguments: Annotated[str, StringConstraints(max_length=MAX_ARGUMENTS_LENGTH)] = (
        Field(default="{}", description="JSON, as the model wrote it.")
    )
    item_id: (
        Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY_LENGTH)]
        | None
    ) = Field(
        default=None,
        description="The item with what the user said last. Tools that act only after "
        "the user has agreed need it.",
    )
    metadata: Metadata | None = Field(
        default=None, description="As in the request for the key."
    )


class VoiceAddress(BaseModel):
    calls_url: str = Field(description="Where the browser sends its WebRTC offer.")


class ClientSecretObject(BaseModel):
    value: str = Field(description="The key.")
    expires_at: int
    session: dict[str, Any] = Field(description="As the provider returned it.")
    coulisse: VoiceAddress


class ToolCallOutput(BaseModel):
    """An item for `conversation.item.create`."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: str
    output: str
