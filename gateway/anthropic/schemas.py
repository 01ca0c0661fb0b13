"""Anthropic's request for a message as pydantic models.

Source: Anthropic's API reference, "Create a Message". Clients of this API send many
fields that only concern Anthropic's servers, so that unknown ones are ignored.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from access.users.request_user import CallerQuery
from api_base.field_types import Metadata
from core.text.sanitization import escape_and_truncate
from gateway.request_validation import media_data
from gateway.schemas import CacheControl, FileId, Items, OpenMessage, TokenCount

MAX_TOOLS = 256
MAX_CALL_ID_LENGTH = 512

CallId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CALL_ID_LENGTH)]


class CacheableBlock(OpenMessage):
    cache_control: CacheControl | None = None


class TextBlock(CacheableBlock):
    type: Literal["text"]
    text: str


class Source(OpenMessage):
    """The common fields of images and documents."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: FileId | None = None
    """The id of an uploaded file, if the type is `file`."""

    @property
    def address(self) -> str:
        """The `data:` or http(s) URL of what is neither uploaded nor text."""
        if self.type == "url":
            return self.url
        return f"data:{self.media_type};base64,{self.data}"

    @model_validator(mode="after")
    def _require_file(self) -> Self:
        if self.type == "file" and self.file_id is None:
            raise PydanticCustomError("file", "needs 'file_id'")
        return self


class ImageSource(Source):
    type: Literal["base64", "file", "url"]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type != "file":
            media_data.check_image(self.address)
        return self


class ImageBlock(CacheableBlock):
    type: Literal["image"]
    source: ImageSource


class SearchResultBlock(CacheableBlock):
    type: Literal["search_result"]
    source: str
    title: str
    content: Items[TextBlock]


class DocumentSource(Source):
    type: Literal["base64", "content", "file", "text", "url"]
    media_type: str = "application/pdf"
    content: (
        str
        | Items[Annotated[TextBlock | ImageBlock, Field(discriminator="type")]]
        | None
    ) = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type in ("base64", "url"):
            media_data.check_file(self.address)
        return self


class DocumentBlock(CacheableBlock):
    type: Literal["document"]
    source: DocumentSource
    title: str | None = None
    context: str | None = None


class ThinkingBlock(OpenMessage):
    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(OpenMessage):
    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(CacheableBlock):
    type: Literal["tool_use"]
    id: CallId
    name: str
    input: Any = None


ShownBlock = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock
"""What users and tools say."""


class ToolResultBlock(CacheableBlock):
    type: Literal["tool_result"]
    tool_use_id: CallId
    content: str | Items[Annotated[ShownBlock, Field(discriminator="type")]] | None = (
        None
    )
    is_error: bool | None = None


ContentBlock = Annotated[
    ShownBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class InputMessage(OpenMessage):
    role: Literal["user", "assistant", "system"]
    content: str | Items[ContentBlock]


def _check_tool_type(kind: str | None) -> str | None:
    if kind not in (None, "custom"):
        raise PydanticCustomError(
            "tool_type",
            "'{kind}' is a tool of Anthropic's servers, which is not available: send "
            "tools with an input_schema. An agent's own tools are in its configuration",
            {"kind": escape_and_truncate(str(kind))},
        )
    return kind


class ClientTool(OpenMessage):
    type: Annotated[str | None, AfterValidator(_check_tool_type)] = None
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
    description: str | None = None
    # Missing in tools of Anthropic's servers, whose type says more.
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class ToolChoice(OpenMessage):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(OpenMessage):
    type: Literal["adaptive", "between_tools", "disabled", "enabled"]
    budget_tokens: TokenCount | None = None


class OutputFormat(OpenMessage):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(OpenMessage):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if each is not None}


class CountRequest(OpenMessage):
    """Body of `POST /v1/messages/count_tokens`."""

    # `max_tokens: true` is not 1.
    model_config = ConfigDict(strict=True)

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    messages: Annotated[Items[InputMessage], Field(min_length=1)]
    system: str | Items[TextBlock] | None = None
    tools: Annotated[Items[ClientTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    output_config: OutputConfig | None = None
    metadata: Annotated[Metadata, BeforeValidator(_without_nulls)] | None = None

    # Refused if they request tools of Anthropic's servers.
    container: Any = None
    mcp_servers: list[Any] | None = None


class MessageRequest(CountRequest):
    """Body of `POST /v1/messages`."""

    max_tokens: TokenCount
    stop_sequences: Items[str] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    thinking: Thinking | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    cache_control: CacheControl | None = None

    def extra_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield the parameters that OpenAI's API does not have."""
        if self.top_k is not None:
            yield "top_k", self.top_k
        if self.cache_control is not None:
            yield "cache_control", self.cache_control


class MessagesQuery(CallerQuery):
    """The query parameters of these endpoints."""

    beta: str | None = Field(
        default=None, description="Sent by clients of Anthropic's beta API; ignored."
    )


MESSAGES_QUERY = MessagesQuery()
