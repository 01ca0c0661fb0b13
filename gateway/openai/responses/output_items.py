"""The items of a reply: its reasoning, its text and its calls of the client's tools.

Item ids contain the id of the turn, so that a later request can refer to an item. The
text of a reply is one item, however many rounds of the agent's own tools it took.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from core.ids import TurnId
from core.messages import Reasoning, ToolCall
from core.reply import Reply
from gateway.openai.responses import reasoning_blocks

ItemObject = dict[str, Any]
"""An item of a response, or a part of one."""

ITEM_ID_PATTERN = re.compile(
    r"(msg|rs|fc|in)_([0-9a-f]{32})(?:_([0-9]{1,9}))?(?:_([0-9]{1,9}))?", re.A
)


class ItemId(NamedTuple):
    """A parsed id of an item."""

    kind: str
    """`msg`, `rs` or `fc` of the reply; `in` of the messages before it."""
    turn_id: TurnId
    number: int
    """Among the items of its kind in the turn, from 1; of `in`, the position."""
    call: int = 0
    """Of `in`: the number of the call in the message, from 1; 0 for its text."""


def format_item_id(kind: str, turn_id: uuid.UUID, number: int = 1) -> str:
    suffix = "" if number == 1 else f"_{number}"
    return f"{kind}_{turn_id.hex}{suffix}"


def parse_item_id(text: str) -> ItemId | None:
    match = ITEM_ID_PATTERN.fullmatch(text)
    if match is None:
        return None
    kind, digits, number, call = match.groups()
    return ItemId(kind, TurnId(uuid.UUID(digits)), int(number or 1), int(call or 0))


def message_item(
    item_id: str, content: Sequence[ItemObject], status: str
) -> ItemObject:
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": list(content),
    }


def text_part(text: str) -> ItemObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def refusal_part(text: str) -> ItemObject:
    return {"type": "refusal", "refusal": text}


def call_item(item_id: str, call: ToolCall, status: str) -> ItemObject:
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def summary_part(text: str) -> ItemObject:
    return {"type": "summary_text", "text": text}


def reasoning_item(
    item_id: str, summary: Sequence[str], blocks: Sequence[Reasoning] = ()
) -> ItemObject:
    """Return a reasoning item; `blocks` are what its provider expects back."""
    item: ItemObject = {
        "id": item_id,
        "type": "reasoning",
        "summary": [summary_part(text) for text in summary],
    }
    if blocks:
        item["encrypted_content"] = reasoning_blocks.encode(blocks)
    return item


def items_of_reply(
    turn_id: TurnId, reply: Reply, status: str, *, with_blocks: bool
) -> list[ItemObject]:
    """Return the items of a complete reply.

    `with_blocks` adds the reasoning that the client returns with its tools' results.
    """
    blocks = reply.message().reasoning if with_blocks else ()
    return [
        *_reasoning_items(turn_id, reply.reasoning, blocks),
        *_text_items(turn_id, reply.text, reply.refusal, status),
        *_call_items(turn_id, reply.tool_calls, status),
    ]


def items_of_stored(
    turn_id: TurnId, text: str, calls: Sequence[ToolCall], status: str
) -> list[ItemObject]:
    """Return the items of a stored reply, of which the reasoning is not stored."""
    return [
        *_text_items(turn_id, text, "", status),
        *_call_items(turn_id, calls, status),
    ]


def _reasoning_items(
    turn_id: TurnId, text: str, blocks: Sequence[Reasoning]
) -> Iterator[ItemObject]:
    if text or blocks:
        item_id = format_item_id("rs", turn_id)
        yield reasoning_item(item_id, [text] if text else [], blocks)


def _text_items(
    turn_id: TurnId, text: str, refusal: str, status: str
) -> Iterator[ItemObject]:
    content = [text_part(text)] if text else []
    if refusal:
        content.append(refusal_part(refusal))
    if content:
        yield message_item(format_item_id("msg", turn_id), content, status)


def _call_items(
    turn_id: TurnId, calls: Sequence[ToolCall], status: str
) -> Iterator[ItemObject]:
    for number, call in enumerate(calls, start=1):
        yield call_item(format_item_id("fc", turn_id, number), call, status)
