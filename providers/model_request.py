"""One call to a model, in OpenAI's terms for every provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.messages import Message


@dataclass(frozen=True)
class ModelRequest:
    """The messages, tools and parameters of a call."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()
    """OpenAI tool objects: `{"type": "function", "function": {…}}`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """By OpenAI's names. None values are never sent; 0 and "" are values."""
    extra_parameters: Mapping[str, Any] = field(default_factory=dict)
    """The client's fields that are not OpenAI's; they replace no other field."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Provider-specific fields, merged over the finished body unchanged."""
    stream: bool = True
    has_fallback: bool = False
    """Whether another model can answer if this one does not."""
    user: str | None = None
    """An opaque id of the end user, for the provider's abuse monitoring."""
