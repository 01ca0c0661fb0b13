"""Conversion between messages and rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from core.messages import Message, Reasoning, Role, ToolCall


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to store, with its metadata."""

    message: Message
    tokens: int
    agent: str = ""
    finish_reason: str = ""
    importance: float = 0.5
    """Its importance for recall, from 0 to 1."""
    own_calls: frozenset[str] = frozenset()
    """The ids of calls of the agent's own tools, which are hidden from users."""


def stored_text(message: Message) -> str:
    """Return the storable text: PostgreSQL does not support NUL."""
    return message.text.replace("\0", "\ufffd")


def extra_json(entry: NewMessage) -> str:
    """Return the rest of a message as JSON, or "" if the text is complete."""
    message = entry.message
    extra: dict[str, Any] = {}
    if message.content is not None and not isinstance(message.content, str):
        extra["content"] = message.content
    if message.name is not None:
        extra["name"] = message.name
    if message.tool_call_id is not None:
        extra["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        extra["tool_calls"] = [(c.id, c.name, c.arguments) for c in message.tool_calls]
        # Only a tool loop needs the reasoning again.
        extra["reasoning"] = [
            (r.text, r.signature, r.redacted, r.model) for r in message.reasoning
        ]
    if own_ids := entry.own_calls & {message.tool_call_id, *_call_ids(message)}:
        extra["own_calls"] = sorted(own_ids)
    return orjson.dumps(extra).decode() if extra else ""


def _call_ids(message: Message) -> Iterator[str]:
    return (call.id for call in message.tool_calls)


def visible_message(role: Role, text: str, extra: str) -> Message | None:
    """Return a row's message as its user may see it, or None.

    Calls of the agent's own tools and their results are removed.
    """
    message = message_from_row(role, text, extra)
    own_ids = (
        frozenset(orjson.loads(extra).get("own_calls", ())) if extra else frozenset()
    )
    if not own_ids:
        return message
    calls = tuple(call for call in message.tool_calls if call.id not in own_ids)
    if message.role == "tool" or not (calls or message.text):
        return None
    return replace(message, tool_calls=calls, reasoning=())


def message_from_row(role: Role, text: str, extra: str) -> Message:
    """Return the message of a row."""
    if not extra:
        return Message(role, text)
    fields = orjson.loads(extra)
    has_calls = "tool_calls" in fields
    return Message(
        role,
        fields.get("content", text or None if has_calls else text),
        name=fields.get("name"),
        tool_call_id=fields.get("tool_call_id"),
        tool_calls=tuple(ToolCall(*call) for call in fields.get("tool_calls", ())),
        reasoning=tuple(Reasoning(*block) for block in fields.get("reasoning", ())),
    )
