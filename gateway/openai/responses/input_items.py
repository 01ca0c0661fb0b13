"""Converts the input of a request for a response to messages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import Invalid
from core.messages import Content, Message, ToolCall
from gateway.openai.errors import ItemUnknown
from gateway.openai.responses import reasoning_blocks
from gateway.openai.responses.schemas import (
    FunctionCallItem,
    FunctionOutputItem,
    InputItem,
    ItemReference,
    MessageItem,
    ReasoningItem,
)
from gateway.request_validation import validation_errors

TEXT_TYPES = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The parts that are text, with the name of their text."""


def reference_ids(items: str | Sequence[InputItem]) -> list[str]:
    """Return the ids of the stored items that the input refers to."""
    if isinstance(items, str):
        return []
    return [item.id for item in items if isinstance(item, ItemReference)]


def to_messages(
    items: str | Sequence[InputItem], stored: Mapping[str, Message]
) -> list[Message]:
    """Return the messages of an input.

    `stored` has the items that it refers to, by id. A reply is several items: its
    reasoning, its text and its calls become one message again.
    """
    if isinstance(items, str):
        return [Message("user", items)]
    messages = (
        _to_message(item, f"input[{position}]", stored)
        for position, item in enumerate(items)
    )
    return list(_without_empty(_join_replies(messages)))


def _to_message(item: InputItem, param: str, stored: Mapping[str, Message]) -> Message:
    match item:
        case MessageItem():
            return _read_message(item, f"{param}.content")
        case FunctionCallItem():
            call = ToolCall(item.call_id, item.name, item.arguments)
            return Message("assistant", tool_calls=(call,))
        case FunctionOutputItem():
            content = _read_content(item.output, f"{param}.output")
            return Message("tool", content, tool_call_id=item.call_id)
        case ReasoningItem():
            blocks = reasoning_blocks.decode(item.encrypted_content)
            return Message("assistant", reasoning=blocks)
        case ItemReference():
            if (message := stored.get(item.id)) is None:
                raise ItemUnknown(item.id, param=f"{param}.id")
            return message


def _read_message(item: MessageItem, param: str) -> Message:
    """Return a message; `developer` is OpenAI's newer name of `system`."""
    content = _read_content(item.content, param)
    if item.role == "user":
        return Message("user", content)
    if not isinstance(content, str):
        raise Invalid(f"{param} of this role must be text", param=param)
    return Message("assistant" if item.role == "assistant" else "system", content)


def _read_content(content: str | list[Any], param: str) -> Content:
    """Return OpenAI's parts of chat messages; text alone as one text."""
    if isinstance(content, str):
        return content
    if all(part["type"] in TEXT_TYPES for part in content):
        return "".join(part[TEXT_TYPES[part["type"]]] for part in content)
    return [
        _read_part(part, f"{param}[{position}]")
        for position, part in enumerate(content)
    ]


def _read_part(part: Mapping[str, Any], param: str) -> dict[str, Any]:
    if (file_id := part.get("file_id")) is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    match part["type"]:
        case "input_image":
            return _read_image(part, param)
        case "input_file":
            return _read_file(part, param)
        case "input_audio":
            return dict(part)
        case kind:
            return {"type": "text", "text": part[TEXT_TYPES[kind]]}


def _read_image(part: Mapping[str, Any], param: str) -> dict[str, Any]:
    if (url := part.get("image_url")) is None:
        raise validation_errors.missing_parameter(f"{param}.image_url")
    image = {"url": url}
    if (detail := part.get("detail")) is not None:
        image["detail"] = "high" if detail == "original" else detail
    return {"type": "image_url", "image_url": image}


def _read_file(part: Mapping[str, Any], param: str) -> dict[str, Any]:
    if (data := part.get("file_data") or part.get("file_url")) is None:
        raise validation_errors.missing_parameter(f"{param}.file_data")
    file = {"file_data": data}
    if (name := part.get("filename")) is not None:
        file["filename"] = name
    return {"type": "file", "file": file}


def _join_replies(messages: Iterable[Message]) -> Iterable[Message]:
    """Join the parts of a reply, of which only one is text."""
    last: Message | None = None
    for message in messages:
        if last is None:
            last = message
        elif last.role == message.role == "assistant" and not (
            last.text and message.text
        ):
            last = replace(
                last,
                content=last.content or message.content,
                tool_calls=(*last.tool_calls, *message.tool_calls),
                reasoning=(*last.reasoning, *message.reasoning),
            )
        else:
            yield last
            last = message
    if last is not None:
        yield last


def _without_empty(messages: Iterable[Message]) -> Iterable[Message]:
    """Leave out replies of which only the reasoning was sent."""
    for message in messages:
        if message.role != "assistant" or message.tool_calls:
            yield message
        elif message.text:
            yield replace(message, reasoning=())
