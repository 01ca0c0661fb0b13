"""Server-sent events: a turn's events as OpenAI's chunks.

The constant parts of a reply's chunks are encoded once; a token costs one JSON string
and a join.
"""

from typing import Any

import orjson

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
from gateway import errors
from gateway.openai import serializers
from turns.turn import TurnRequest

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": heartbeat\n\n"
"""A comment, which clients skip; it keeps proxies from timing out."""


def error_frame(error: CoulisseError | None, *, for_operators: bool = False) -> bytes:
    """Return the frame that ends a failed stream; None means an internal error."""
    if error is None:
        body = errors.internal_error()
    else:
        body = errors.error_body(error, for_operators=for_operators)
    return b"data: " + orjson.dumps(body) + b"\n\n"


class Encoder:
    """Encodes the events of one reply as frames of a stream."""

    id: str
    """The id of the reply, for the log."""

    def show_model(self, model: str) -> None:
        """Name this model in the reply, in place of the agent; called at the start."""
        raise NotImplementedError

    def first_frame(self) -> bytes:
        """Return what precedes the first event."""
        return b""

    def encode(self, event: Event) -> bytes:
        """Return the frames of one event; b"" for events that clients do not see."""
        raise NotImplementedError

    def failure_frame(self, error: CoulisseError | None) -> bytes:
        """Return the frames of a failed stream; None means an internal error."""
        return error_frame(error)

    def last_frame(self) -> bytes:
        """Return what ends the stream, failed or not, after all other frames."""
        return b""


class ChunkEncoder(Encoder):
    """Encodes events as chunks of a chat completion."""

    def __init__(self, turn: TurnRequest, *, include_usage: bool) -> None:
        head = serializers.new_head(turn.turn_id, turn.agent)
        self.id = head.id
        self._fields = {**head.fields("chat.completion.chunk"), "choices": []}
        # With include_usage every chunk but the last has `usage: null`.
        self._include_usage = include_usage
        self._end = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._suffix = b',"logprobs":null,"finish_reason":null}' + self._end
        self._prefix = self._encode_prefix()
        self._started_calls: set[int] = set()
        self._log_probs: LogProbs | None = None
        """Of the next delta."""

    def show_model(self, model: str) -> None:
        self._fields["model"] = model
        self._prefix = self._encode_prefix()

    def _encode_prefix(self) -> bytes:
        prefix = orjson.dumps(self._fields)[: -len(b"]}")]
        return b"data: " + prefix + b'{"index":0,"delta":'

    def first_frame(self) -> bytes:
        """Return the chunk that announces the assistant."""
        return self._encode_delta(b'{"role":"assistant","content":"","refusal":null}')

    def encode(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._encode_delta(
                    b'{"content":' + orjson.dumps(event.text) + b"}"
                )
            case LogProbs():
                self._log_probs = event
                return b""
            case ReasoningDelta():
                text = orjson.dumps(event.text)
                return self._encode_delta(b'{"reasoning_content":' + text + b"}")
            case RefusalDelta():
                return self._encode_delta(
                    b'{"refusal":' + orjson.dumps(event.text) + b"}"
                )
            case ToolCallDelta():
                return self._encode_delta(
                    orjson.dumps({"tool_calls": [self._tool_call_delta(event)]})
                )
            case HandoffStarted():
                return self._encode_handoff(event)
            case Heartbeat():
                return HEARTBEAT
            case ReasoningBlock() | TurnStarted():
                return b""
            case TurnFinished():
                return self._encode_finish(event)

    def last_frame(self) -> bytes:
        return DONE

    def _encode_delta(self, delta: bytes) -> bytes:
        if self._log_probs is None:
            return self._prefix + delta + self._suffix
        log_probs = orjson.dumps(serializers.serialize_log_probs(self._log_probs))
        self._log_probs = None
        rest = b',"logprobs":' + log_probs + b',"finish_reason":null}' + self._end
        return self._prefix + delta + rest

    def _encode_handoff(self, handoff: HandoffStarted) -> bytes:
        """Return Coulisse's event, which is also a chunk: some clients ignore types."""
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        chunk = {**self._fields, "choices": [choice], "agent": handoff.agent}
        if self._include_usage:
            chunk["usage"] = None
        return b"event: handoff_started\ndata: " + orjson.dumps(chunk) + b"\n\n"

    def _tool_call_delta(self, delta: ToolCallDelta) -> dict[str, Any]:
        if delta.index in self._started_calls:
            return {
                "index": delta.index,
                "function": {"arguments": delta.arguments},
            }
        self._started_calls.add(delta.index)
        return {
            "index": delta.index,
            "id": delta.id,
            "type": "function",
            "function": {"name": delta.name, "arguments": delta.arguments},
        }

    def _encode_finish(self, finished: TurnFinished) -> bytes:
        reason = b'{},"logprobs":null,"finish_reason":"%b"}' % finished.reason.encode()
        frame = b"" if self._log_probs is None else self._encode_delta(b"{}")
        coulisse = serializers.coulisse_fields(finished.served_by)
        if self._include_usage and finished.usage is not None:
            usage = serializers.serialize_usage(finished.usage)
            chunk = {**self._fields, "usage": usage, **coulisse}
            frame += self._prefix + reason + self._end
            return frame + b"data: " + orjson.dumps(chunk) + b"\n\n"
        if not coulisse:
            return frame + self._prefix + reason + self._end
        end = self._end[: -len(b"}\n\n")] + b"," + orjson.dumps(coulisse)[1:] + b"\n\n"
        return frame + self._prefix + reason + end
