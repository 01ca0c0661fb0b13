"""One call to a model, in OpenAI's terms for every provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.messages import Message
from core.runtime import trace_context
from core.runtime.trace_context import TraceContext


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
    is_continuation: bool = False
    """Whether a client has received the beginning of the reply: the call waits for no
    limit."""
    has_fallback: bool = False
    """Whether another model can answer if this one does not."""
    user: str | None = None
    """An opaque id of the end user, for the provider's abuse monitoring."""
    span: TraceContext | None = field(default_factory=trace_context.current.get)
    """Its span, whose context is sent as a header; None without traces."""
