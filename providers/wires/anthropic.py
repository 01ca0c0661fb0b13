"""Anthropic's native Messages API, for its caching and reasoning.

https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from core.events import (
    Event,
    FinishReason,
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Reasoning
from providers.model_request import ModelRequest
from providers.resilience.error_mapping import (
    ProviderSource,
    from_error_object,
    malformed_reply,
)
from providers.wires import anthropic_body, usage_parsing
from providers.wires.base import ReplyReader, Wire

VERSION = "2023-06-01"

FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

INPUT_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
COUNTS = (*INPUT_COUNTS, "output_tokens")


class AnthropicWire(Wire):
    path = "/v1/messages"
    models_path = "/v1/models"

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        version = {"anthropic-version": VERSION}
        return version if api_key is None else {"x-api-key": api_key, **version}

    def body(self, call: ModelRequest) -> dict[str, Any]:
        return anthropic_body.build_body(call)

    def reader(self, source: ProviderSource) -> "AnthropicReader":
        return AnthropicReader(source)


class AnthropicReader(ReplyReader):
    """Reads a stream of content blocks, one open at a time."""

    def __init__(self, source: ProviderSource) -> None:
        self.done = False
        self._source = source
        self._counts: dict[str, int] = {}
        self._reason: FinishReason | None = None
        self._stop_sequence: str | None = None
        self._tools = -1
        self._is_in_tool_call = False
        self._thinking: list[str] = []
        self._signature: list[str] = []
        # A tool's whole input may come with the start of its block.
        self._input = ""

    def feed(self, name: str, data: bytes) -> Iterable[Event]:
        event = orjson.loads(data)
        if not isinstance(event, dict):
            raise malformed_reply(self._source, "has an event that is not an object")
        match event.get("type", name):
            case "content_block_delta":
                return self._delta(event.get("delta") or {})
            case "content_block_start":
                return self._start(event.get("content_block") or {})
            case "content_block_stop":
                return self._stop()
            case "message_start":
                self._update_counts((event.get("message") or {}).get("usage"))
            case "message_delta":
                self._update_counts(event.get("usage"))
                self._finish(event.get("delta") or {})
            case "message_stop":
                self.done = True
            case "error":
                raise from_error_object(self._source, event)
        return ()

    def read_reply(self, payload: Any) -> list[Event]:
        if not isinstance(payload, dict):
            raise malformed_reply(self._source, "is not a JSON object")
        if payload.get("type") == "error" or payload.get("error"):
            raise from_error_object(self._source, payload)
        content = payload.get("content")
        if not isinstance(content, list):
            raise malformed_reply(self._source, "has no content")
        events: list[Event] = []
        for block in content:
            events += self._start(block)
            events += self._stop()
        self._update_counts(payload.get("usage"))
        self._finish(payload)
        self.done = True
        return events

    def end(self) -> TurnFinished:
        if not self.done:
            raise malformed_reply(self._source, "is incomplete")
        return TurnFinished(
            self._reason or "stop", self._usage(), stop_sequence=self._stop_sequence
        )

    def _delta(self, delta: dict[str, Any]) -> Iterable[Event]:
        match delta.get("type"):
            case "text_delta":
                return [TextDelta(delta["text"])] if delta.get("text") else ()
            case "input_json_delta":
                return self._arguments(delta.get("partial_json") or "")
            case "thinking_delta":
                return self._add_thinking(delta.get("thinking") or "")
            case "signature_delta":
                self._signature.append(delta.get("signature") or "")
        # citations_delta and unknown types have no equivalent in our replies.
        return ()

    def _start(self, block: dict[str, Any]) -> list[Event]:
        match block.get("type"):
            case "text" if block.get("text"):
                return [TextDelta(block["text"])]
            case "thinking":
                self._signature.append(block.get("signature") or "")
                return self._add_thinking(block.get("thinking") or "")
            case "redacted_thinking":
                redacted = Reasoning("", redacted=block.get("data") or "")
                return [ReasoningBlock(redacted)]
            case "tool_use":
                return self._tool(block)
        return []

    def _tool(self, block: dict[str, Any]) -> list[Event]:
        self._tools += 1
        self._is_in_tool_call = True
        if block.get("input"):
            self._input = orjson.dumps(block["input"]).decode()
        return [ToolCallDelta(self._tools, block.get("id"), block.get("name"))]

    def _arguments(self, text: str) -> Iterable[Event]:
        if not text or not self._is_in_tool_call:
            return ()
        self._input = ""
        return [ToolCallDelta(self._tools, arguments=text)]

    def _add_thinking(self, text: str) -> list[Event]:
        if not text:
            return []
        self._thinking.append(text)
        return [ReasoningDelta(text)]

    def _stop(self) -> list[Event]:
        """Close the open block: reasoning is now complete and signed."""
        self._is_in_tool_call = False
        text, self._thinking = "".join(self._thinking), []
        signature, self._signature = "".join(self._signature), []
        if text or signature:
            return [ReasoningBlock(Reasoning(text, signature))]
        arguments, self._input = self._input, ""
        return [ToolCallDelta(self._tools, arguments=arguments)] if arguments else []

    def _finish(self, message: dict[str, Any]) -> None:
        if reason := message.get("stop_reason"):
            self._reason = FINISH_REASONS.get(str(reason), "stop")
            sequence = message.get("stop_sequence")
            self._stop_sequence = sequence if isinstance(sequence, str) else None

    def _update_counts(self, counts: Any) -> None:
        """Store counts: each one replaces the previous one instead of adding to it."""
        if isinstance(counts, dict):
            for name in COUNTS:
                number = usage_parsing.parse_count(counts.get(name))
                if number is not None:
                    self._counts[name] = number
            details = counts.get("output_tokens_details")
            if isinstance(details, dict):
                thinking = usage_parsing.parse_count(details.get("thinking_tokens"))
                self._counts["thinking_tokens"] = thinking or 0

    def _usage(self) -> Usage | None:
        """Return the count in our terms: their `input_tokens` leaves out the cache."""
        prompt = [self._counts[name] for name in INPUT_COUNTS if name in self._counts]
        return usage_parsing.build_usage(
            sum(prompt) if prompt else None,
            self._counts.get("output_tokens"),
            cache_read=self._counts.get("cache_read_input_tokens", 0),
            cache_write=self._counts.get("cache_creation_input_tokens", 0),
            reasoning=self._counts.get("thinking_tokens", 0),
        )
