"""One call to a model, in OpenAI's words whatever the provider's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.messages import Message


@dataclass(frozen=True)
class ModelRequest:
    """What to ask a model, and how."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()
    """OpenAI tool objects: `{"type": "function", "function": {…}}`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """By OpenAI's names. What is absent or None is never sent; 0 and "" are values."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the provider's own, laid over the finished body as they are."""
    stream: bool = True
    user: str | None = None
    """An opaque id of the end user, for the provider's abuse monitoring."""
