"""Messages of a conversation, in the format that all layers share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]

Content = str | Sequence[dict[str, Any]] | None
"""Plain text, OpenAI content parts (`{"type": "text", …}`), or nothing."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by the model."""

    id: str
    name: str
    arguments: str
    """JSON, verbatim from the model."""

    def serialize(self) -> dict[str, Any]:
        """Return the call as a message in OpenAI's API has it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Reasoning:
    """One reasoning block, in the form its provider expects back in a tool loop."""

    text: str
    signature: str = ""
    """Anthropic's signature of the block; empty for others."""
    redacted: str = ""
    """Anthropic's encrypted reasoning, returned unchanged; `text` is then empty."""
    model: str = ""
    """The model that wrote it, as `provider/model`: no other model can use it. Empty if
    unknown."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: Content = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on assistant messages."""
    tool_call_id: str | None = None
    """Only on tool messages: the id of the call."""
    reasoning: tuple[Reasoning, ...] = ()
    """Only on assistant messages."""
    cache_control: Mapping[str, Any] | None = field(default=None, compare=False)
    """The client's mark that the prompt up to here is worth caching, in Anthropic's
    format. It is no part of the conversation: clients move it with each request."""

    @property
    def text(self) -> str:
        """The joined text parts of the content; images and files are skipped."""
        if self.content is None:
            return ""
        if isinstance(self.content, str):
            return self.content
        return "".join(
            part.get("text", "") for part in self.content if part.get("type") == "text"
        )
