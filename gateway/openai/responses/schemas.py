"""OpenAI's requests for responses as pydantic models.

Source: OpenAI's API reference, "Create a model response". As for chat, the agent
decides what happens to unknown parameters; items may have fields of their own, because
clients send back what they received.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from access.users.list_queries import OrderedListQuery
from access.users.request_user import CallerQuery
from api_base.field_types import refuse_nul
from core.text.sanitization import escape_and_truncate
from gateway.request_validation import media_data
from gateway.schemas import (
    InputAudio,
    Items,
    JsonObjectFormat,
    JsonSchema,
    OpenMessage,
    StrictModel,
    TextFormat,
    TokenCount,
    ToolName,
    TurnBody,
)

MAX_TOOLS = 128
MAX_CALL_ID_LENGTH = 512
MAX_INCLUDED = 20


class InputText(TypedDict):
    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    type: Literal["input_image"]
    image_url: NotRequired[
        Annotated[str, AfterValidator(media_data.check_image)] | None
    ]
    file_id: NotRequired[str | None]
    detail: NotRequired[Literal["auto", "low", "high", "original"] | None]


class InputFile(TypedDict):
    type: Literal["input_file"]
    file_data: NotRequired[Annotated[str, AfterValidator(media_data.check_file)] | None]
    file_id: NotRequired[str | None]
    file_url: NotRequired[Annotated[str, AfterValidator(media_data.check_file)] | None]
    filename: NotRequired[str | None]


class AudioInput(TypedDict):
    type: Literal["input_audio"]
    input_audio: InputAudio


class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str


class OutputRefusal(TypedDict):
    type: Literal["refusal"]
    refusal: str


ContentPart = Annotated[
    InputText | InputImage | InputFile | AudioInput | OutputText | OutputRefusal,
    Field(discriminator="type"),
]
OutputPart = Annotated[InputText | InputImage | InputFile, Field(discriminator="type")]


class MessageItem(OpenMessage):
    """A message; clients often leave out its type."""

    type: Literal["message"] | None = None
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Items[ContentPart]


class FunctionCallItem(OpenMessage):
    type: Literal["function_call"]
    id: str | None = None
    call_id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID_LENGTH)]
    name: str
    arguments: str


class FunctionOutputItem(OpenMessage):
    type: Literal["function_call_output"]
    id: str | None = None
    call_id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID_LENGTH)]
    output: str | Items[OutputPart]


class ReasoningItem(OpenMessage):
    type: Literal["reasoning"]
    id: str | None = None
    encrypted_content: str | None = None


class ItemReference(OpenMessage):
    type: Literal["item_reference"] | None = None
    id: str


def _item_type(value: Any) -> str | None:
    """Return the type of an item, which messages and references may leave out."""
    if not isinstance(value, dict):
        return None
    if (kind := value.get("type")) is not None:
        return str(kind)
    if "role" in value:
        return "message"
    return "item_reference" if "id" in value else None


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[ItemReference, Tag("item_reference")],
    Discriminator(_item_type),
]


def _check_tool_type(kind: str) -> str:
    if kind != "function":
        raise PydanticCustomError(
            "tool_type",
            "'{kind}' is not available: only function tools are. An agent's own tools "
            "are in its configuration",
            {"kind": escape_and_truncate(kind)},
        )
    return kind


class FunctionTool(OpenMessage):
    type: Annotated[str, AfterValidator(_check_tool_type)]
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(OpenMessage):
    type: Literal["function"]
    name: str


class AllowedTools(OpenMessage):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[Items[NamedFunction], Field(max_length=MAX_TOOLS)]


class JsonSchemaFormat(JsonSchema):
    """The format of a reply; flat, unlike in chat."""

    type: Literal["json_schema"]


Format = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]


class TextSettings(StrictModel):
    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningSettings(OpenMessage):
    effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    ) = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class ConversationReference(OpenMessage):
    id: str


def _conversation_id(value: Any) -> Any:
    """Return the id of a conversation, which may be given as an object."""
    return value.get("id") if isinstance(value, dict) else value


Conversation = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=512)],
    AfterValidator(refuse_nul),
    BeforeValidator(
        _conversation_id, json_schema_input_type=str | ConversationReference
    ),
]


class IncludeQuery(CallerQuery):
    """The query of items, which OpenAI's clients may send."""

    include: list[str] = Field(
        default=[],
        alias="include[]",
        max_length=MAX_INCLUDED,
        description="Ignored: items have no optional parts here.",
    )


class ItemsQuery(IncludeQuery, OrderedListQuery):
    """The query of lists of items."""


class ResponseQuery(IncludeQuery):
    """The query of a stored response."""

    stream: bool = Field(default=False, description="Stream its events.")
    include_obfuscation: bool = Field(
        default=False, description="Ignored: events are not padded."
    )
    starting_after: int | None = Field(
        default=None, ge=0, description="Only events with a higher number."
    )


class StreamOptions(StrictModel):
    include_obfuscation: bool | None = None


class ResponseRequest(TurnBody):
    """Body of `POST /v1/responses`."""

    input: str | Annotated[Items[InputItem], Field(min_length=1)]

    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Conversation | None = None

    stream_options: StreamOptions | None = None
    background: bool | None = None
    store: bool | None = None
    include: Items[str] | None = None
    text: TextSettings | None = None
    truncation: Literal["auto", "disabled"] | None = None

    tools: Annotated[Items[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[NamedFunction | AllowedTools, Field(discriminator="type")]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None

    max_output_tokens: TokenCount | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    reasoning: ReasoningSettings | None = None
    service_tier: str | None = None

    # Known, and refused with 400 if they request more than a turn supports.
    context_management: Any = None
    moderation: Any = None
    prompt: Any = None
    top_logprobs: int | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the response can be retrieved later."""
        return self.store is not False
