"""A round of the agent loop: one reply of a model, and the prompt that led to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import message_filters
from agents.fallback_chain import Model
from agents.stream_filter import StreamFilter
from core import token_usage
from core.messages import Message
from core.reply import Reply


@dataclass(slots=True)
class PromptCut:
    """Where the prompt of a turn begins, besides its system messages."""

    first: int = 0
    """The position of the first message that is sent; 0 for all."""

    def apply(self, messages: list[Message]) -> list[Message]:
        return message_filters.since(messages, self.first) if self.first else messages

    def shorten(self, messages: Sequence[Message], window: int | None) -> bool:
        """Leave out the oldest messages, once; return whether there are any.

        Half of the prompt stays if the window is unknown. Tokens are estimated, so a
        known one is not filled.
        """
        if self.first:
            return False
        size = token_usage.estimate_sent(messages)
        limit = size // 2 if window is None else min(window, size) * 3 // 4
        self.first = message_filters.first_fitting(
            messages, lambda kept: token_usage.estimate_sent(kept) <= limit
        )
        return self.first > 0


@dataclass(slots=True)
class Round:
    """One reply of a model."""

    messages: list[Message]
    """The prompt; without images once a model has refused them."""
    parameters: Mapping[str, Any]
    """The request's parameters."""
    stream_filter: StreamFilter
    reply: Reply = field(default_factory=Reply)
    """The part that the client has received, or will."""
    model: Model | None = None
    """The model that gave the reply."""
    said: str = ""
    """The text that the client has received of a reply that broke off."""
    broken_by: Exception | None = None
    """Why it broke off."""
    refused_forms: int = 0
    """The forms in which the model has refused to continue it."""
    cut: PromptCut = field(default_factory=PromptCut)
    may_drop_tools: bool = False
    """Whether the call had tools that the model may do without."""

    @property
    def message(self) -> Message:
        """The reply as an assistant message, its reasoning marked with the model."""
        return message_filters.sign_reasoning(self.reply.message(), str(self.model))
