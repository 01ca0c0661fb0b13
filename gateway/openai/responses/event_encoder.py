"""A turn's events as OpenAI's events of a streamed response.

Reasoning ends when text or a call begins. Text and calls end with the reply, because
the agent may continue its text after a call of one of its own tools.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from core.errors import CoulisseError
from core.events import (
    Event,
    HandoffStarted,
    Heartbeat,
    LogProbs,
    ReasoningBlock,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    TurnStarted,
)
from core.messages import Reasoning
from gateway import errors
from gateway.openai import serializers, sse
from gateway.openai.responses import output_items, response_object
from gateway.openai.responses.item_encoders import (
    REFUSAL,
    TEXT,
    CallItemEncoder,
    EventWriter,
    ItemEncoder,
    MessageItemEncoder,
    ReasoningItemEncoder,
)
from gateway.openai.responses.response_object import ResponseHead
from gateway.openai.sse import Encoder


class EventEncoder(Encoder):
    """Encodes events as those of a response: those with numbers higher than `after`.

    The last one, about the response, ends the stream.
    """

    def __init__(self, head: ResponseHead, *, after: int = -1) -> None:
        self.id = head.id
        self._head = head
        self.turn_id = head.turn_id
        """The turn that the ids of items have."""
        self.ended_at: int | None = None
        """When the reply ended, in seconds since 1970; None: when the encoder ends."""
        self._writer = EventWriter(after=after)
        self._items: list[ItemEncoder] = []
        self._reasoning: list[ReasoningItemEncoder] = []
        self._message: MessageItemEncoder | None = None
        self._calls: dict[int, CallItemEncoder] = {}
        self._blocks: list[Reasoning] = []

    def show_model(self, model: str) -> None:
        self._head = replace(self._head, model=model)

    def first_frame(self) -> bytes:
        """Return the events that announce the response."""
        response = self._head.to_response("in_progress")
        created = self._writer.write("response.created", response=response)
        return created + self._writer.write("response.in_progress", response=response)

    def encode(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._encode_text(TEXT, event.text)
            case RefusalDelta():
                return self._encode_text(REFUSAL, event.text)
            case ReasoningDelta():
                return b"".join(self._encode_reasoning(event.text))
            case ToolCallDelta():
                return self._encode_call(event)
            case ReasoningBlock():
                self._blocks.append(event.block)
                return b""
            case Heartbeat():
                return sse.HEARTBEAT
            case HandoffStarted() | LogProbs() | TurnStarted():
                return b""
            case TurnFinished():
                return b"".join(self._encode_finish(event))

    def failure_frame(self, error: CoulisseError | None) -> bytes:
        """Return the events of a failed response."""
        body = errors.internal_error() if error is None else errors.error_body(error)
        details = {name: body["error"][name] for name in ("code", "message", "param")}
        response = self._head.to_response(
            "failed",
            [each.to_item("incomplete") for each in self._items],
            error=response_object.serialize_error(error),
        )
        problem = self._writer.write("error", **details)
        return problem + self._writer.write("response.failed", response=response)

    def encode_end(self, response: Mapping[str, Any]) -> bytes:
        """Return the last event of a response without a reply."""
        kind = "completed" if response["status"] == "completed" else "failed"
        return self._writer.write(f"response.{kind}", response=response)

    def _encode_text(self, kind: str, text: str) -> bytes:
        if self._message is not None:
            return self._message.add(kind, text)
        frames = self._end_reasoning()
        self._message = MessageItemEncoder(self._writer, *self._place("msg"))
        return frames + self._add(self._message) + self._message.add(kind, text)

    def _place(self, kind: str, number: int = 1) -> tuple[str, int]:
        """Return the id and the position of the next item."""
        item_id = output_items.format_item_id(kind, self.turn_id, number)
        return item_id, len(self._items)

    def _add(self, item: ItemEncoder) -> bytes:
        self._items.append(item)
        return item.start()

    def _encode_reasoning(self, text: str) -> Iterator[bytes]:
        if not self._reasoning or self._reasoning[-1].has_ended:
            yield self._add_reasoning()
        yield from self._reasoning[-1].add(text)

    def _add_reasoning(self) -> bytes:
        place = self._place("rs", len(self._reasoning) + 1)
        self._reasoning.append(ReasoningItemEncoder(self._writer, *place))
        return self._add(self._reasoning[-1])

    def _end_reasoning(self) -> bytes:
        """Return the events that end open reasoning.

        The item stays open if it may receive the blocks for the provider.
        """
        if not self._reasoning or self._reasoning[-1].has_ended:
            return b""
        last = self._reasoning[-1]
        if self._head.wants_encrypted_reasoning:
            return b"".join(last.end_text())
        return b"".join(last.finish("completed"))

    def _encode_call(self, delta: ToolCallDelta) -> bytes:
        call, frames = self._calls.get(delta.index), b""
        if call is None:
            call = self._calls[delta.index] = CallItemEncoder(
                self._writer,
                *self._place("fc", len(self._calls) + 1),
                call_id=delta.id or "",
                name=delta.name or "",
            )
            frames = self._end_reasoning() + self._add(call)
        return frames + call.add(delta.arguments) if delta.arguments else frames

    def _encode_finish(self, event: TurnFinished) -> Iterator[bytes]:
        if self._blocks and self._head.wants_encrypted_reasoning:
            if not self._reasoning:
                yield self._add_reasoning()
            self._reasoning[-1].blocks = self._blocks
        status = response_object.item_status(event.reason)
        for item in self._items:
            if not item.is_done:
                yield from item.finish(status)
        response = {
            **response_object.finished(
                self._head,
                event.reason,
                [item.to_item(status) for item in self._items],
                event.usage,
                self.ended_at,
            ),
            **serializers.coulisse_fields(event.served_by),
        }
        yield self._writer.write(f"response.{status}", response=response)
