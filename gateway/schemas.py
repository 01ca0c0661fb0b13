"""OpenAI's chat completion request as pydantic models.

Source: OpenAI's API reference, "Create chat completion". Other endpoints use these
parts, too. Unknown fields of a request go to the agent, those of its parts are refused,
except in messages, which clients send back as received.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api_base.field_types import Metadata
from gateway.request_validation import media_data

T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]
"""A list whose validation ends at the first wrong item: it may have thousands of
them."""


class CacheControl(TypedDict):
    """Anthropic's mark of what to cache: the prompt up to here."""

    type: Literal["ephemeral"]
    ttl: NotRequired[Literal["5m", "1h"]]


class MarkedPart(TypedDict):
    """A part of a message, which may be marked for caching."""

    cache_control: NotRequired[CacheControl | None]


class TextPart(MarkedPart):
    type: Literal["text"]
    text: str


class ImageUrl(TypedDict):
    url: Annotated[
        str, StringConstraints(min_length=1), AfterValidator(media_data.check_image)
    ]
    detail: NotRequired[Literal["auto", "low", "high", "original"]]


class ImagePart(MarkedPart):
    type: Literal["image_url"]
    image_url: ImageUrl


class InputAudio(TypedDict):
    data: Annotated[str, AfterValidator(media_data.check_audio)]
    format: Literal["wav", "mp3"]


class AudioPart(TypedDict):
    type: Literal["input_audio"]
    input_audio: InputAudio


FileId = Annotated[str, StringConstraints(min_length=1, max_length=100)]


def _require_content(file: Any) -> Any:
    if not file.get("file_id") and not file.get("file_data"):
        raise PydanticCustomError("file", "needs 'file_id' or 'file_data'")
    return file


class FileData(TypedDict):
    file_data: NotRequired[Annotated[str, AfterValidator(media_data.check_file)]]
    file_id: NotRequired[FileId]
    filename: NotRequired[str]


class FilePart(MarkedPart):
    type: Literal["file"]
    file: Annotated[FileData, AfterValidator(_require_content)]


class InputFilePart(TypedDict):
    """A file as in OpenAI's other endpoints."""

    type: Literal["input_file"]
    file_id: FileId


class RefusalPart(TypedDict):
    type: Literal["refusal"]
    refusal: str


UserPart = Annotated[
    TextPart | ImagePart | AudioPart | FilePart | InputFilePart,
    Field(discriminator="type"),
]
AssistantPart = Annotated[TextPart | RefusalPart, Field(discriminator="type")]


class OpenMessage(BaseModel):
    """A message that clients send back as received, with fields of their own."""

    model_config = ConfigDict(extra="ignore")


class SystemMessage(OpenMessage):
    role: Literal["system", "developer"]
    content: str | Items[TextPart]
    name: str | None = None


class UserMessage(OpenMessage):
    role: Literal["user"]
    content: str | Annotated[Items[UserPart], Field(min_length=1)]
    name: str | None = None


class FunctionCall(OpenMessage):
    name: str
    arguments: str


class MessageToolCall(OpenMessage):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class AssistantMessage(OpenMessage):
    role: Literal["assistant"]
    content: str | Items[AssistantPart] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: Items[MessageToolCall] | None = None


class ToolMessage(OpenMessage):
    role: Literal["tool"]
    content: str | Items[TextPart]
    tool_call_id: str


ChatMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]


class StrictModel(BaseModel):
    # Strict in types too: `max_tokens: true` is not 1.
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(StrictModel):
    include_usage: bool = False
    # Padding against the guessing of tokens by sizes is left out.
    include_obfuscation: bool | None = None


class JsonSchema(StrictModel):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None


class TextFormat(StrictModel):
    type: Literal["text"]


class JsonObjectFormat(StrictModel):
    type: Literal["json_object"]


class JsonSchemaFormat(StrictModel):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]

ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class FunctionDefinition(TypedDict):
    name: ToolName
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class FunctionTool(TypedDict):
    type: Literal["function"]
    function: FunctionDefinition
    cache_control: NotRequired[CacheControl | None]


def _refuse_custom_tool(tool: Any) -> Any:
    if isinstance(tool, dict) and tool.get("type") == "custom":
        raise PydanticCustomError(
            "custom_tool",
            "custom tools are not supported: most providers lack them; describe "
            "a function with one argument of type string",
        )
    return tool


ChatTool = Annotated[FunctionTool, BeforeValidator(_refuse_custom_tool)]


class NamedFunction(TypedDict):
    name: str


class NamedTool(TypedDict):
    type: Literal["function"]
    function: NamedFunction


class ToolSubset(TypedDict):
    mode: Literal["auto", "required"]
    tools: Annotated[Items[NamedTool], Field(min_length=1, max_length=128)]


class AllowedTools(TypedDict):
    type: Literal["allowed_tools"]
    allowed_tools: ToolSubset


ToolChoice = (
    Literal["none", "auto", "required"]
    | Annotated[NamedTool | AllowedTools, Field(discriminator="type")]
)


Penalty = Annotated[float, Field(ge=-2, le=2)]
TokenCount = Annotated[int, Field(ge=1)]


class TurnBody(StrictModel):
    """The fields of each of OpenAI's requests that is a turn.

    The agent decides what happens to fields that are not listed.
    """

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    metadata: Metadata | None = None
    safety_identifier: str | None = None
    user: str | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None


class CompletionBody(TurnBody):
    """The fields of both chat completions and completions."""

    stream_options: StreamOptions | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    max_tokens: TokenCount | None = None
    n: int | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    stop: str | Annotated[Items[str], Field(max_length=4)] | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatRequest(CompletionBody):
    """Body of `POST /v1/chat/completions`."""

    messages: Annotated[Items[ChatMessage], Field(min_length=1)]
    response_format: ResponseFormat | None = None

    tools: Annotated[Items[ChatTool], Field(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None

    logprobs: bool | None = None
    max_completion_tokens: TokenCount | None = None
    moderation: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    ) = None
    service_tier: str | None = None
    store: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None

    # Known, and refused with 400 if they request more than a turn supports.
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    modalities: Items[str] | None = None
    web_search_options: Any = None
