"""What a model says as it says it: the values a turn is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.messages import Message, Reasoning

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens one or more model calls used.

    `input_tokens` counts the whole prompt, cached or not, whatever the provider's
    own arithmetic is; `output_tokens` includes `reasoning_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class ServedBy:
    """Who answers, and what it took."""

    provider: str
    """Its name under `providers:`."""
    model: str
    attempts: int
    """How many requests to providers it took, what failed included."""
    cost_micro_usd: int | None = None
    """None while it is not known, and where a price is not."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn's model begins to answer. Once in a turn, before all that is said."""

    served_by: ServedBy
    headers: Mapping[str, str]
    """What the client is told beside the reply, such as what it has left."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class RefusalDelta:
    """More of the text in which the model refuses (OpenAI's `refusal`)."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's visible thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """A whole block of thinking, once its signature is known; never shown as text."""

    block: Reasoning


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of a tool call; `id` and `name` come with the first piece of each index."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class HandoffStarted:
    """The agent asks another one; what that one says is not heard here."""

    agent: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing was said for a while, and the turn goes on."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The model is done. Always the last event of a call."""

    reason: FinishReason
    usage: Usage | None = None
    """None when the provider gave no count."""
    exchange: tuple[Message, ...] = ()
    """What was said and done up to a call of the client's, where the agent's own tools
    were called on the way: the model needs all of it to go on."""
    served_by: ServedBy | None = None
    """Known at the end of a turn."""


Event = (
    TurnStarted
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningBlock
    | ToolCallDelta
    | HandoffStarted
    | Heartbeat
    | TurnFinished
)
