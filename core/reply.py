"""The reply that a turn has produced so far."""

from collections.abc import Iterator

from core.events import (
    Event,
    FinishReason,
    LogProbs,
    ReasoningBlock,
    ReasoningDelta,
    RefusalDelta,
    ServedBy,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Message, Reasoning, ToolCall


class Reply:
    """A reply accumulated from its events."""

    def __init__(self, text: str = "") -> None:
        """`text` is what it begins with."""
        self.finish_reason: FinishReason | None = None
        self.usage: Usage | None = None
        self.exchange: tuple[Message, ...] = ()
        self.served_by: ServedBy | None = None
        self.stop_sequence: str | None = None
        self._text: list[str] = [text] if text else []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._blocks: list[Reasoning] = []
        self._calls: dict[int, list[str]] = {}
        self._log_probs: list[LogProbs] = []

    def add(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._text.append(event.text)
            case ToolCallDelta():
                self._add_call_delta(event)
            case LogProbs():
                self._log_probs.append(event)
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case RefusalDelta():
                self._refusal.append(event.text)
            case ReasoningBlock():
                self._blocks.append(event.block)
            case TurnFinished():
                self.finish_reason = event.reason
                self.usage = event.usage
                self.exchange = event.exchange
                self.served_by = event.served_by
                self.stop_sequence = event.stop_sequence

    def _add_call_delta(self, delta: ToolCallDelta) -> None:
        call = self._calls.setdefault(delta.index, ["", "", ""])
        call[0] = call[0] or delta.id or ""
        call[1] = call[1] or delta.name or ""
        call[2] += delta.arguments

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def refusal(self) -> str:
        return "".join(self._refusal)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def log_probs(self) -> LogProbs | None:
        """The log probabilities of all tokens; None unless they were requested."""
        if not self._log_probs:
            return None
        return LogProbs(
            [token for each in self._log_probs for token in each.content],
            [token for each in self._log_probs for token in each.refusal],
        )

    @property
    def reasoning_blocks(self) -> tuple[Reasoning, ...]:
        """The reasoning as its provider expects it back."""
        return tuple(self._blocks)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(*self._calls[index]) for index in sorted(self._calls))

    @property
    def has_output(self) -> bool:
        """Whether there is any output visible to a user or client."""
        return bool(self._text or self._refusal or self._calls)

    @property
    def has_begun(self) -> bool:
        """Whether the model has produced anything billable, even only reasoning."""
        is_over = self.finish_reason is not None
        return is_over or self.has_output or bool(self._reasoning or self._blocks)

    def message(self) -> Message:
        """Return the reply as the assistant's message."""
        calls = self.tool_calls
        text = self.text or self.refusal
        return Message(
            "assistant",
            None if calls and not text else text,
            tool_calls=calls,
            reasoning=tuple(self._blocks) if calls else (),
        )

    def replay_events(self, *, text: str, usage: Usage | None) -> Iterator[Event]:
        """Yield the reply's events again, with another text and usage."""
        if self.reasoning:
            yield ReasoningDelta(self.reasoning)
        for block in self._blocks:
            yield ReasoningBlock(block)
        if self.log_probs is not None and text == self.text:
            yield self.log_probs
        if text:
            yield TextDelta(text)
        if self.refusal:
            yield RefusalDelta(self.refusal)
        for index, call in enumerate(self.tool_calls):
            yield ToolCallDelta(index, call.id, call.name, call.arguments)
        yield TurnFinished(
            self.finish_reason or "stop",
            usage,
            self.exchange,
            stop_sequence=self.stop_sequence,
        )
