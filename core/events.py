"""The events of a model's streamed reply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.messages import Message, Reasoning

HEARTBEAT_SECONDS = 20.0
"""The interval of heartbeats to the client while tools or checks run."""
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one or more model calls.

    `input_tokens` is the whole prompt, including its cached part, even if the provider
    counts that separately. `output_tokens` includes `reasoning_tokens`.
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
    """The provider and model that served a turn, with attempts and cost."""

    provider: str
    """The provider's name under `providers:`."""
    model: str
    attempts: int
    """The number of requests to providers, failed ones included."""
    cost_micro_usd: int | None = None
    """None while it is unknown, and for models without a price."""
    rescues: int = 0
    """How often its reply broke off and was continued."""
    safety: Mapping[str, Any] | None = None
    """The results of safety checks so far; None if there are none."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn's model starts to reply. Emitted once per turn, before any output."""

    served_by: ServedBy
    headers: Mapping[str, str]
    """Response headers for the client, such as its remaining quota."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class RefusalDelta:
    """A piece of the text in which the model refuses (OpenAI's `refusal`)."""

    text: str


@dataclass(frozen=True, slots=True)
class LogProbs:
    """The log probabilities of the tokens of the text or refusal that follows.

    Both are lists of OpenAI's `ChatCompletionTokenLogprob`.
    """

    content: Sequence[Any]
    refusal: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's visible reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """A complete reasoning block with its signature; never shown as text."""

    block: Reasoning


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call; the first piece of each index has `id` and `name`."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class HandoffStarted:
    """The agent calls another agent, whose output is not part of these events."""

    agent: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The turn continues, but had no output for a while."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The model has finished. Always the last event of a call."""

    reason: FinishReason
    usage: Usage | None = None
    """None when the provider gave no count."""
    exchange: tuple[Message, ...] = ()
    """The messages up to a client-side tool call, if the agent called tools of its own
    before it: the model needs all of them to continue."""
    served_by: ServedBy | None = None
    """Set at the end of a turn."""
    stop_sequence: str | None = None
    """The client's stop sequence that ended the reply, if the provider names it."""


Event = (
    TurnStarted
    | TextDelta
    | RefusalDelta
    | LogProbs
    | ReasoningDelta
    | ReasoningBlock
    | ToolCallDelta
    | HandoffStarted
    | Heartbeat
    | TurnFinished
)
