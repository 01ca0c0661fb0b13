"""Stored messages as items: those before a reply, which clients and agents sent."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core.ids import TurnId
from core.messages import Message
from gateway.openai.responses import output_items
from gateway.openai.responses.output_items import ItemObject
from memory.transcript.turn_lookup import VisibleTurn

FILE_FIELDS = ("file_data", "file_id", "filename")
"""The fields of a file in OpenAI's items."""


def items_of_input(
    turn_id: TurnId, messages: Iterable[tuple[int, Message]]
) -> Iterator[ItemObject]:
    """Yield the items of messages with their positions in the thread."""
    for position, message in messages:
        yield from _items_of_message(turn_id, position, message)


def _items_of_message(
    turn_id: TurnId, position: int, message: Message
) -> Iterator[ItemObject]:
    item_id = output_items.format_item_id("in", turn_id, position)
    match message.role:
        case "tool":
            yield _result_item(item_id, message)
        case "assistant":
            if message.text:
                content = [output_items.text_part(message.text)]
                yield output_items.message_item(item_id, content, "completed")
            for number, call in enumerate(message.tool_calls, start=1):
                # In full: the first position has no number in ids.
                call_id = f"in_{turn_id.hex}_{position}_{number}"
                yield output_items.call_item(call_id, call, "completed")
        case role:
            yield {
                "id": item_id,
                "type": "message",
                "status": "completed",
                "role": role,
                "content": list(_content_parts(message)),
            }


def _result_item(item_id: str, message: Message) -> ItemObject:
    is_text = message.content is None or isinstance(message.content, str)
    return {
        "id": item_id,
        "type": "function_call_output",
        "status": "completed",
        "call_id": message.tool_call_id or "",
        "output": message.text if is_text else list(_content_parts(message)),
    }


def _content_parts(message: Message) -> Iterator[ItemObject]:
    content = message.content
    if content is None or isinstance(content, str):
        yield {"type": "input_text", "text": content or ""}
        return
    yield from map(_content_part, content)


def _content_part(part: Mapping[str, Any]) -> ItemObject:
    """Return a part of a chat message as an input part."""
    match part.get("type"):
        case "image_url":
            image = part["image_url"]
            detail = image.get("detail", "auto")
            return {"type": "input_image", "image_url": image["url"], "detail": detail}
        case "file":
            file = part["file"]
            shown = {name: file[name] for name in FILE_FIELDS if name in file}
            return {"type": "input_file", **shown}
        case "text":
            return {"type": "input_text", "text": part["text"]}
        case _:
            return {**part}


def find_message(item: output_items.ItemId, turn: VisibleTurn) -> Message | None:
    """Return the message, or the part of the reply, that an item id names."""
    match item.kind:
        case "in":
            message = dict(turn.input).get(item.number)
            return None if message is None else _part_of(message, item.call)
        case "msg":
            return Message("assistant", turn.text) if turn.text else None
        case "fc":
            chosen = turn.tool_calls[item.number - 1 : item.number]
            return Message("assistant", tool_calls=chosen) if chosen else None
        case _:
            # Reasoning is not stored.
            return Message("assistant")


def _part_of(message: Message, call: int) -> Message | None:
    """Return a message of the input, or of a reply in it one call or the text."""
    if message.role != "assistant":
        return message
    if not call:
        return Message("assistant", message.text)
    calls = message.tool_calls[call - 1 : call]
    return Message("assistant", tool_calls=calls) if calls else None
