"""Serialize answers of the scripted provider, for either wire format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from core.events import FinishReason, Usage

StreamPoint = Literal["headers", "first_token", "mid_stream"]

ANTHROPIC_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


@dataclass
class ScriptedAnswer:
    """The answer to one request."""

    pieces: Sequence[str] = ("Hello from the fake.",)
    """The text, one piece per token."""
    reasoning: Sequence[str] = ()
    tool_calls: Sequence[tuple[str, Any]] = ()
    """Names and arguments; a str is sent unchanged."""
    refusal: str = ""
    finish: FinishReason | None = None
    """Default: `tool_calls` with tool calls, else `stop`."""
    stop_sequence: str | None = None
    """The sequence that ended it, which only Anthropic's API names."""
    usage: Usage | None = field(default_factory=lambda: Usage(7, 3))
    pause_seconds: float = 0.0
    """The pause before every token."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """The whole body, in place of the fields above."""
    content_type: str | None = None
    error: Mapping[str, Any] | None = None
    """An error object in the stream, after the text."""
    hang: StreamPoint | None = None
    """The point to stop at until the client leaves or `fake.release()`."""
    cut: StreamPoint | None = None
    """The point to drop the connection at."""
    unterminated: bool = False
    """Close the stream without its terminator."""

    @property
    def is_slow(self) -> bool:
        """Return whether the client may leave before the end."""
        return self.hang is not None or self.pause_seconds > 0

    @property
    def reason(self) -> FinishReason:
        """Return the finish reason in OpenAI's terms."""
        return self.finish or ("tool_calls" if self.tool_calls else "stop")


class FakeWire(Protocol):
    """A wire format, from the side of a provider."""

    lead: int
    """The number of frames before the first with content."""

    def whole(self, answer: ScriptedAnswer) -> bytes:
        """Return the body of a whole reply."""
        ...

    def frames(self, answer: ScriptedAnswer) -> list[bytes]:
        """Return the server-sent events; the first has no content."""
        ...


def wire_of(path: str) -> FakeWire:
    """Return the wire of a path."""
    return FakeAnthropicWire() if path.endswith("/messages") else FakeOpenAIWire()


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _call(index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{index}", "type": "function", "function": function}


def _split_in_half(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


class FakeOpenAIWire:
    """Chat completions."""

    lead = 1

    def whole(self, answer: ScriptedAnswer) -> bytes:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(answer.pieces) if answer.pieces else None,
            "refusal": answer.refusal or None,
        }
        if answer.reasoning:
            message["reasoning_content"] = "".join(answer.reasoning)
        if answer.tool_calls:
            message["tool_calls"] = [
                _call(index, name, _arguments(value))
                for index, (name, value) in enumerate(answer.tool_calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": answer.reason}
        body: dict[str, Any] = {
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "choices": [choice],
        }
        if answer.error is not None:
            body = {"error": dict(answer.error)}
        elif answer.usage is not None:
            body["usage"] = self._usage(answer.usage)
        return orjson.dumps(body)

    def frames(self, answer: ScriptedAnswer) -> list[bytes]:
        return list(self._frames(answer))

    def _frames(self, answer: ScriptedAnswer) -> Iterator[bytes]:
        yield self._delta({"role": "assistant", "content": ""})
        for thought in answer.reasoning:
            yield self._delta({"reasoning_content": thought})
        for piece in answer.pieces:
            yield self._delta({"content": piece})
        if answer.refusal:
            yield self._delta({"refusal": answer.refusal})
        for index, (name, value) in enumerate(answer.tool_calls):
            yield from self._call(index, name, _arguments(value))
        if answer.error is not None:
            yield self._frame({"error": dict(answer.error)})
        elif not answer.unterminated:
            yield self._delta({}, finish=answer.reason)
            if answer.usage is not None:
                usage = self._usage(answer.usage)
                yield self._frame({"choices": [], "usage": usage})
            yield b"data: [DONE]\n\n"

    def _call(self, index: int, name: str, arguments: str) -> Iterator[bytes]:
        first = {"index": index, **_call(index, name, "")}
        yield self._delta({"tool_calls": [first]})
        for half in _split_in_half(arguments):
            piece = {"index": index, "function": {"arguments": half}}
            yield self._delta({"tool_calls": [piece]})

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._frame({"choices": [choice]})

    def _frame(self, fields: dict[str, Any]) -> bytes:
        head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk"}
        return b"data: " + orjson.dumps(head | fields) + b"\n\n"

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }


class FakeAnthropicWire:
    """Messages."""

    lead = 2

    def whole(self, answer: ScriptedAnswer) -> bytes:
        if answer.error is not None:
            return orjson.dumps({"type": "error", "error": dict(answer.error)})
        body = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "content": self._blocks(answer),
            **self._end(answer),
            "usage": self._usage(answer.usage),
        }
        return orjson.dumps(body)

    def _blocks(self, answer: ScriptedAnswer) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if answer.reasoning:
            thought = {"type": "thinking", "thinking": "".join(answer.reasoning)}
            blocks.append({**thought, "signature": "signed"})
        text = "".join(answer.pieces) or answer.refusal
        if text:
            blocks.append({"type": "text", "text": text})
        for index, (name, value) in enumerate(answer.tool_calls):
            arguments = orjson.loads(_arguments(value) or "{}")
            call = {"type": "tool_use", "id": f"toolu_{index}", "name": name}
            blocks.append({**call, "input": arguments})
        return blocks

    def _end(self, answer: ScriptedAnswer) -> dict[str, Any]:
        reason = ANTHROPIC_REASONS[answer.reason]
        if answer.stop_sequence is not None:
            reason = "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": answer.stop_sequence}

    def frames(self, answer: ScriptedAnswer) -> list[bytes]:
        return list(self._frames(answer))

    def _frames(self, answer: ScriptedAnswer) -> Iterator[bytes]:
        usage = self._usage(answer.usage)
        message = {"role": "assistant", "content": [], "usage": usage}
        yield self._frame("message_start", message=message)
        index = -1
        for index, (block, deltas) in enumerate(self._streamed(answer)):
            yield self._frame("content_block_start", index=index, content_block=block)
            for delta in deltas:
                yield self._frame("content_block_delta", index=index, delta=delta)
            yield self._frame("content_block_stop", index=index)
        if answer.error is not None:
            yield self._frame("error", error=dict(answer.error))
        elif not answer.unterminated:
            yield self._frame("message_delta", delta=self._end(answer), usage=usage)
            yield self._frame("message_stop")

    def _streamed(
        self, answer: ScriptedAnswer
    ) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        if answer.reasoning:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": thought}
                for thought in answer.reasoning
            ]
            signed = {"type": "signature_delta", "signature": "signed"}
            yield block, [*deltas, signed]
        pieces = [*answer.pieces, answer.refusal]
        deltas = [{"type": "text_delta", "text": text} for text in pieces if text]
        if deltas:
            yield {"type": "text", "text": ""}, deltas
        for index, (name, value) in enumerate(answer.tool_calls):
            tool = {"type": "tool_use", "id": f"toolu_{index}", "name": name}
            halves = _split_in_half(_arguments(value))
            yield (
                {**tool, "input": {}},
                [{"type": "input_json_delta", "partial_json": half} for half in halves],
            )

    def _frame(self, name: str, **fields: Any) -> bytes:
        data = orjson.dumps({"type": name, **fields})
        return f"event: {name}\ndata: ".encode() + data + b"\n\n"

    def _usage(self, usage: Usage | None) -> dict[str, int]:
        if usage is None:
            return {}
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "input_tokens": usage.input_tokens - cached,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
        }
