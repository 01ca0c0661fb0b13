"""Anthropic's message, its content blocks and its usage."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from core import ids
from core.events import FinishReason, Usage
from core.ids import TurnId
from core.messages import Reasoning, ToolCall
from core.reply import Reply
from gateway.openai import serializers
from gateway.openai.responses import reasoning_blocks

BlockObject = dict[str, Any]
"""A content block of a reply."""

STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


SHOWN_SIGNATURE = "coulisse"
"""The signature of thinking that is only shown: some clients drop unsigned blocks."""


def serialize_head(turn_id: TurnId, agent: str, usage: Usage) -> dict[str, Any]:
    """Return a message that has no content yet."""
    return {
        "id": ids.format_message_id(turn_id),
        "type": "message",
        "role": "assistant",
        "model": agent,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": serialize_usage(usage),
    }


def serialize_message(turn_id: TurnId, agent: str, reply: Reply) -> dict[str, Any]:
    """Return a complete reply."""
    return {
        **serialize_head(turn_id, agent, reply.usage or Usage()),
        "content": list(_blocks(reply)),
        **serialize_end(reply.finish_reason or "stop", reply.stop_sequence),
        **serializers.coulisse_fields(reply.served_by),
    }


def serialize_end(reason: FinishReason, sequence: str | None) -> dict[str, Any]:
    """Return why a reply ended."""
    name = STOP_REASONS[reason] if sequence is None else "stop_sequence"
    return {"stop_reason": name, "stop_sequence": sequence}


def _blocks(reply: Reply) -> Iterator[BlockObject]:
    if reply.reasoning:
        yield thinking_block(reply.reasoning, SHOWN_SIGNATURE)
    if text := reply.text + reply.refusal:
        yield text_block(text)
    for call in reply.tool_calls:
        yield {**tool_use_block(call.id, call.name), "input": _input(call)}
    if reply.reasoning_blocks:
        yield encrypted_block(reply.reasoning_blocks)


def text_block(text: str) -> BlockObject:
    return {"type": "text", "text": text}


def thinking_block(text: str, signature: str = "") -> BlockObject:
    return {"type": "thinking", "thinking": text, "signature": signature}


def encrypted_block(blocks: Sequence[Reasoning]) -> BlockObject:
    """Return what the model's provider expects back with the results of tools."""
    return {"type": "redacted_thinking", "data": reasoning_blocks.encode(blocks)}


def tool_use_block(call_id: str, name: str) -> BlockObject:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def _input(call: ToolCall) -> dict[str, Any]:
    """Return arguments as an object, which models do not always write."""
    try:
        value = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        return {"_invalid_json": call.arguments}
    return value if isinstance(value, dict) else {"_value": value}


def serialize_usage(usage: Usage) -> dict[str, Any]:
    """Return Anthropic's usage object; `input_tokens` leaves out the cached ones."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": max(usage.input_tokens - cached, 0),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
