"""Conversion between messages and rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from core import token_estimates
from core.messages import Message, Reasoning, Role, ToolCall


@dataclass(slots=True)
class NewMessage:
    message: Message
    counted_tokens: int | None = None
    """The provider's count, if it has one."""
    agent: str = ""
    finish_reason: str = ""
    importance: float = 0.5
    """Its importance for recall, from 0 to 1."""
    own_calls: frozenset[str] = frozenset()
    """The ids of calls of the agent's own tools, which are hidden from users."""
    request_fields: Mapping[str, Any] = field(default_factory=dict)
    """Of a reply: fields of its request that its client may read back."""
    digest: bytes | None = None
    """Of the client's conversation up to it; None of what the client does not see."""
    exchange_digest: bytes | None = None
    """Of a reply and its question."""
    created_at: datetime | None = None
    """None: when it is stored."""

    @property
    def tokens(self) -> int:
        """The size in later prompts."""
        if self.counted_tokens is not None:
            return self.counted_tokens
        return token_estimates.estimate_message(self.message)

    @property
    def text(self) -> str:
        """The storable text: PostgreSQL does not support NUL."""
        return self.message.text.replace("\0", "\ufffd")

    @property
    def extra(self) -> str:
        """The rest of the message as JSON, or "" if the text is complete."""
        return _extra_json(self)


def to_columns(message: Message) -> tuple[str, str, str]:
    """Return the arguments of `message_from_row`, for copies in payloads of tasks."""
    entry = NewMessage(message, 0)
    return message.role, entry.text, entry.extra


def _extra_json(entry: NewMessage) -> str:
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
    if entry.request_fields:
        extra["request"] = dict(entry.request_fields)
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
    own_ids = own_call_ids(extra)
    if not own_ids:
        return message
    calls = tuple(call for call in message.tool_calls if call.id not in own_ids)
    if message.role == "tool" or not (calls or message.text):
        return None
    return replace(message, tool_calls=calls, reasoning=())


def own_call_ids(extra: str) -> frozenset[str]:
    """Return the ids of a row's calls of the agent's own tools."""
    return frozenset(orjson.loads(extra).get("own_calls", ()) if extra else ())


def request_fields(extra: str) -> dict[str, Any]:
    """Return the fields of the request that are stored with a reply."""
    fields: dict[str, Any] = orjson.loads(extra).get("request", {}) if extra else {}
    return fields


def message_from_row(role: Role, text: str, extra: str) -> Message:
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
