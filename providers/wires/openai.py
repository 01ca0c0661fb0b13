"""OpenAI's Chat Completions API and its compatible variants.

https://platform.openai.com/docs/api-reference/chat
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.events import (
    Event,
    FinishReason,
    LogProbs,
    ReasoningBlock,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Message, Reasoning
from providers.model_request import ModelRequest
from providers.resilience.error_mapping import (
    ProviderSource,
    from_error_object,
    malformed_reply,
)
from providers.wires import openai_usage, tool_images
from providers.wires.base import ReplyReader, Wire
from providers.wires.tool_call_deltas import ToolCallReader

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "complete": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "refusal": "content_filter",
    # Gemini's own reasons.
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
}
# The provider failed in the middle of a reply (OpenRouter, DeepSeek, Gemini).
FAILED_REASONS = {"error", "insufficient_system_resource", "malformed_function_call"}

SIGNATURE_REQUIRED_MODELS = re.compile(r"gemini-(?:[3-9]|\d\d)")
"""The models that refuse calls without a signature."""
PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Replaces the signature of calls that another model made.
https://ai.google.dev/gemini-api/docs/thought-signatures"""

HIGH_EFFORTS = {"xhigh", "max"}

TOOL_PARAMETERS = {"parallel_tool_calls", "tool_choice"}

EMPTY_SCHEMA_KEYS = {"$schema", "additionalProperties", "description", "properties"}
EMPTY_SCHEMA_KEYS |= {"required", "title", "type"}
"""The keywords of a schema without parameters; any other may define some."""


@dataclass(frozen=True)
class OpenAIWire(Wire):
    """The wire, with options for the differences between providers."""

    max_tokens_as: str = "max_tokens"
    """The name under which a limit is sent; callers may use either."""
    user_as: str | None = None
    """The field for the end user's id, if any."""
    sends_cache_control: bool = False
    """Whether messages and tools may be marked for caching, as at Anthropic."""
    highest_effort: str | None = None
    """The effort to send in place of higher ones; None sends all."""
    sends_message_names: bool = True
    """Whether `messages[].name` is accepted."""
    returns_reasoning: bool = False
    """Whether tool calls sent back must carry the thinking that led to them."""
    returns_signatures: bool = False
    """Whether tool calls sent back must carry Gemini's proof of its thinking."""
    sends_empty_parameters: bool = True
    """Whether a tool may have an empty schema of parameters."""
    filters_silently: bool = False
    """Whether a reply without choices means that the prompt was blocked."""

    path = "/chat/completions"
    models_path = "/models"

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def body(self, call: ModelRequest) -> dict[str, Any]:
        is_strict = self.returns_signatures and SIGNATURE_REQUIRED_MODELS.search(
            call.model
        )
        default_signature = PLACEHOLDER_SIGNATURE if is_strict else ""
        body: dict[str, Any] = {
            "model": call.model,
            "messages": [
                self._message(message, default_signature)
                for message in tool_images.move_images_after_results(call.messages)
            ],
        }
        if call.tools:
            body["tools"] = self._tools(call.tools)
        body |= self._parameters(call)
        if call.user is not None and self.user_as is not None:
            body[self.user_as] = call.user
        if call.stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        return {**call.extra_parameters, **body, **call.extra_body}

    def _tools(self, tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        if not self.sends_cache_control:
            tools = [*map(_without_cache_control, tools)]
        if self.sends_empty_parameters:
            return list(tools)
        return [*map(_without_empty_parameters, tools)]

    def _parameters(self, call: ModelRequest) -> dict[str, Any]:
        parameters = {
            name: value for name, value in call.parameters.items() if value is not None
        }
        limit = parameters.pop("max_tokens", None)
        limit = parameters.pop("max_completion_tokens", limit)
        if limit is not None:
            parameters[self.max_tokens_as] = limit
        if self.highest_effort and parameters.get("reasoning_effort") in HIGH_EFFORTS:
            parameters["reasoning_effort"] = self.highest_effort
        if not call.tools:
            # OpenAI refuses these without tools.
            for name in TOOL_PARAMETERS:
                parameters.pop(name, None)
        return parameters

    def _message(self, message: Message, default_signature: str) -> dict[str, Any]:
        body: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.name is not None and self.sends_message_names:
            body["name"] = message.name
        if message.tool_call_id is not None:
            body["tool_call_id"] = message.tool_call_id
        if message.tool_calls:
            body |= self._tool_call_message(message, default_signature)
        elif message.content is None:
            body["content"] = ""
        if message.cache_control and self.sends_cache_control and body["content"]:
            body["content"] = _marked_parts(body["content"], message.cache_control)
        return body

    def _tool_call_message(
        self, message: Message, default_signature: str
    ) -> dict[str, Any]:
        calls: list[dict[str, Any]] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
        signatures = [block.signature for block in message.reasoning if block.signature]
        signature = signatures[-1] if signatures else default_signature
        if self.returns_signatures and signature:
            google = {"thought_signature": signature}
            calls[0]["extra_content"] = {"google": google}
        if not self.returns_reasoning:
            return {"tool_calls": calls}
        # Even empty: DeepSeek refuses calls without the field.
        thought = "".join(block.text for block in message.reasoning)
        return {"reasoning_content": thought, "tool_calls": calls}

    def reader(self, source: ProviderSource) -> "OpenAIReader":
        return OpenAIReader(
            source,
            keep_reasoning=self.returns_reasoning,
            blocks_silently=self.filters_silently,
        )


def _marked_parts(content: Any, mark: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return content as parts, the last one marked for caching."""
    text = [{"type": "text", "text": content}]
    *parts, last = text if isinstance(content, str) else content
    return [*parts, {**last, "cache_control": mark}]


def _without_cache_control(tool: dict[str, Any]) -> dict[str, Any]:
    if "cache_control" not in tool:
        return tool
    return {key: tool[key] for key in tool if key != "cache_control"}


def _without_empty_parameters(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool without its parameters if there are none."""
    function = tool["function"]
    parameters = function.get("parameters") or {}
    if parameters.get("properties") or parameters.keys() - EMPTY_SCHEMA_KEYS:
        return tool
    reduced = {key: function[key] for key in function if key != "parameters"}
    return {**tool, "function": reduced}


def _log_probs(value: Any) -> list[Event]:
    """Return the log probabilities of a choice, if it has any."""
    if not isinstance(value, dict):
        return []
    content, refusal = (value.get(key) or () for key in ("content", "refusal"))
    is_valid = isinstance(content, list | tuple) and isinstance(refusal, list | tuple)
    return [LogProbs(content, refusal)] if is_valid and (content or refusal) else []


class OpenAIReader(ReplyReader):
    """Reads a stream of chunks; `feed` is called for every token."""

    def __init__(
        self,
        source: ProviderSource,
        *,
        keep_reasoning: bool = False,
        blocks_silently: bool = False,
    ) -> None:
        self._blocks_silently = blocks_silently
        self._is_silent = False
        """Whether a chunk had no content."""
        self.done = False
        self._source = source
        self._usage: Usage | None = None
        self._reason: FinishReason | None = None
        self._has_begun = False
        self._tools = ToolCallReader()
        self._reasoning: list[str] | None = [] if keep_reasoning else None

    def feed(self, name: str, data: bytes) -> Iterable[Event]:
        if data == b"[DONE]":
            self.done = True
            return ()
        chunk = orjson.loads(data)
        if name == "error" or not isinstance(chunk, dict):
            raise from_error_object(self._source, chunk)
        if chunk.get("usage") or "x_groq" in chunk:
            self._read_usage(chunk)
        if chunk.get("error"):
            raise from_error_object(self._source, chunk)
        choices = chunk.get("choices")
        if not choices:
            self._is_silent = True
            return ()
        return self._choice(choices[0], "delta")

    def read_reply(self, payload: Any) -> Sequence[Event]:
        if not isinstance(payload, dict):
            raise malformed_reply(self._source, "is not a JSON object")
        if payload.get("error"):
            raise from_error_object(self._source, payload)
        self._read_usage(payload)
        choices = payload.get("choices")
        if choices:
            events = self._choice(choices[0], "message")
        elif self._blocks_silently and "choices" in payload:
            self._is_silent = True
            events = ()
        else:
            raise malformed_reply(self._source, "has no choices")
        self.done = True
        return events

    def end(self) -> TurnFinished:
        if self._is_blocked():
            return TurnFinished("content_filter", self._usage)
        if not self._has_begun or (not self.done and self._reason is None):
            raise malformed_reply(self._source, "is incomplete")
        reason = self._reason or "stop"
        # With a forced function OpenAI itself says "stop"; Gemini always does.
        if reason == "stop" and self._tools.has_calls:
            reason = "tool_calls"
        return TurnFinished(reason, self._usage)

    def _is_blocked(self) -> bool:
        """Whether a filter blocked the whole reply."""
        is_silent = self._is_silent and not self._has_begun
        return is_silent and self._blocks_silently and self.done

    def _choice(self, choice: Any, key: str) -> Sequence[Event]:
        if not isinstance(choice, dict) or choice.get("index"):
            return ()
        self._has_begun = True
        delta = choice.get(key) or {}
        content = delta.get("content")
        reason = choice.get("finish_reason")
        log_probs = choice.get("logprobs")
        is_alone = len(delta) == 1 and content and not reason and not log_probs
        if is_alone and type(content) is str:
            # Nearly every chunk is this.
            return (TextDelta(content),)
        events = [*_log_probs(log_probs), *self._delta(delta, content)]
        if reason:
            self._finish(reason, choice)
            events += self._reasoning_block()
        return events

    def _delta(self, delta: dict[str, Any], content: Any) -> list[Event]:
        events: list[Event] = []
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            events.append(self._add_reasoning(thought))
        if content:
            events += self._content(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            events.append(RefusalDelta(refusal))
        events += self._tool_calls(delta)
        return events

    def _add_reasoning(self, thought: str) -> ReasoningDelta:
        if self._reasoning is not None:
            self._reasoning.append(thought)
        return ReasoningDelta(thought)

    def _reasoning_block(self) -> list[Event]:
        """Return the reasoning as one block, for providers that require it back."""
        blocks: list[Event] = []
        if self._reasoning:
            blocks.append(ReasoningBlock(Reasoning("".join(self._reasoning))))
            self._reasoning = []
        if self._tools.signature:
            signed = Reasoning("", signature=self._tools.signature)
            blocks.append(ReasoningBlock(signed))
        return blocks

    def _content(self, content: Any) -> list[Event]:
        """Read text, or a list of parts (Mistral, some gateways)."""
        if isinstance(content, str):
            return [TextDelta(content)]
        parts = content if isinstance(content, list) else ()
        events = (self._part(part) for part in parts)
        return [event for event in events if event is not None]

    def _part(self, part: Any) -> Event | None:
        if isinstance(part, str) and part:
            return TextDelta(part)
        if not isinstance(part, dict):
            return None
        if part.get("type") == "refusal":
            return RefusalDelta(str(part.get("refusal") or ""))
        text = part.get("text")
        return TextDelta(text) if text and isinstance(text, str) else None

    def _tool_calls(self, delta: dict[str, Any]) -> list[ToolCallDelta]:
        function = delta.get("function_call")
        if function:
            return self._tools.feed([{"index": 0, "function": function}])
        return self._tools.feed(delta.get("tool_calls"))

    def _finish(self, reason: Any, choice: dict[str, Any]) -> None:
        # With the filter's reason behind it: "content_filter: PROHIBITED_CONTENT".
        word = str(reason).lower().partition(":")[0]
        if word in FAILED_REASONS:
            raise from_error_object(self._source, choice.get("error") or {})
        self._reason = FINISH_REASONS.get(word, "stop")

    def _read_usage(self, chunk: dict[str, Any]) -> None:
        self._usage = openai_usage.find_usage(chunk) or self._usage
