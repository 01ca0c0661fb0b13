"""A turn's events as Anthropic's events of a streamed message."""

from collections.abc import Iterator
from typing import Any

import orjson

from core import ids
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
    Usage,
)
from core.ids import TurnId
from core.messages import Reasoning
from gateway.anthropic import error_shape, message_object
from gateway.anthropic.message_object import BlockObject
from gateway.openai import serializers
from gateway.openai.sse import Encoder

PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def write(kind: str, **fields: Any) -> bytes:
    data = orjson.dumps({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


class MessageStreamEncoder(Encoder):
    """Encodes events as those of a message, with one open block at a time.

    The last one, `message_stop` or `error`, ends the stream.
    """

    def __init__(self, turn_id: TurnId, agent: str, input_tokens: int) -> None:
        """`input_tokens` is an estimate: providers count after the first event."""
        self.id = ids.format_message_id(turn_id)
        self._head = message_object.serialize_head(
            turn_id, agent, Usage(input_tokens=input_tokens)
        )
        self._blocks: list[Reasoning] = []
        self._count = 0
        """The number of blocks so far."""
        self._open = ""
        """The type of the open block."""
        self._call = -1
        """The call whose block is open."""
        self._waiting: dict[int, list[ToolCallDelta]] = {}
        """The other calls, whose pieces may arrive in any order."""

    def show_model(self, model: str) -> None:
        self._head["model"] = model

    def first_frame(self) -> bytes:
        return write("message_start", message=self._head) + PING

    def encode(self, event: Event) -> bytes:
        match event:
            case TextDelta() | RefusalDelta():
                return self._write_text(event.text)
            case ReasoningDelta():
                return b"".join(self._write_thinking(event.text))
            case ReasoningBlock():
                self._blocks.append(event.block)
                return b""
            case ToolCallDelta():
                return b"".join(self._write_call(event))
            case Heartbeat():
                return PING
            case HandoffStarted() | LogProbs() | TurnStarted():
                return b""
            case TurnFinished():
                return b"".join(self._finish(event))

    def failure_frame(self, error: CoulisseError | None) -> bytes:
        return error_shape.error_frame(error)

    def _write_text(self, text: str) -> bytes:
        frames = b""
        if self._open != "text":
            frames = b"".join(self._start("text", message_object.text_block("")))
        # A token costs one JSON string and a join.
        return (
            b'%bevent: content_block_delta\ndata: {"type":"content_block_delta",'
            b'"index":%d,"delta":{"type":"text_delta","text":%b}}\n\n'
            % (frames, self._count - 1, orjson.dumps(text))
        )

    def _start(self, kind: str, block: BlockObject) -> Iterator[bytes]:
        yield from self._stop()
        self._open = kind
        self._count += 1
        yield write("content_block_start", index=self._count - 1, content_block=block)

    def _stop(self) -> Iterator[bytes]:
        if self._open == "thinking":
            signature = message_object.SHOWN_SIGNATURE
            yield self._delta("signature_delta", signature=signature)
        if self._open:
            self._open, self._call = "", -1
            yield write("content_block_stop", index=self._count - 1)

    def _delta(self, kind: str, **fields: Any) -> bytes:
        delta = {"type": kind, **fields}
        return write("content_block_delta", index=self._count - 1, delta=delta)

    def _write_thinking(self, text: str) -> Iterator[bytes]:
        if self._open != "thinking":
            yield from self._start("thinking", message_object.thinking_block(""))
        yield self._delta("thinking_delta", thinking=text)

    def _write_call(self, piece: ToolCallDelta) -> Iterator[bytes]:
        if self._open == "tool_use" and piece.index != self._call:
            self._waiting.setdefault(piece.index, []).append(piece)
            return
        if self._open != "tool_use":
            block = message_object.tool_use_block(piece.id or "", piece.name or "")
            yield from self._start("tool_use", block)
            self._call = piece.index
        if piece.arguments:
            yield self._delta("input_json_delta", partial_json=piece.arguments)

    def _finish(self, event: TurnFinished) -> Iterator[bytes]:
        yield from self._stop()
        for index in sorted(self._waiting):
            for piece in self._waiting[index]:
                yield from self._write_call(piece)
            yield from self._stop()
        if self._blocks:
            block = message_object.encrypted_block(self._blocks)
            yield from self._start("redacted_thinking", block)
            yield from self._stop()
        fields: dict[str, Any] = serializers.coulisse_fields(event.served_by)
        if event.usage is not None:
            fields["usage"] = message_object.serialize_usage(event.usage)
        delta = message_object.serialize_end(event.reason, event.stop_sequence)
        yield write("message_delta", delta=delta, **fields)
        yield write("message_stop")
