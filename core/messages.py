"""What is said in a conversation, in the shape every layer passes around."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]

Content = str | Sequence[dict[str, Any]] | None
"""Plain text, OpenAI content parts (`{"type": "text", …}`), or nothing."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for."""

    id: str
    name: str
    arguments: str
    """JSON, exactly as the model wrote it."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """One block of a model's thinking, as its provider wants it back in a tool loop."""

    text: str
    signature: str = ""
    """Anthropic's proof that the block is its own; empty elsewhere."""
    redacted: str = ""
    """Anthropic's encrypted thinking, returned as it came; `text` is then empty."""
    model: str = ""
    """Whose it is, as `provider/model`: it is of use to no other. Empty: not known."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: Content = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on assistant messages."""
    tool_call_id: str | None = None
    """Only on tool messages: the call this answers."""
    reasoning: tuple[Reasoning, ...] = ()
    """Only on assistant messages."""

    @property
    def text(self) -> str:
        """The text of the content, its parts joined; images and files say nothing."""
        if self.content is None:
            return ""
        if isinstance(self.content, str):
            return self.content
        return "".join(
            part.get("text", "") for part in self.content if part.get("type") == "text"
        )
