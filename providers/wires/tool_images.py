"""Images in tool results, as far as models accept them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.messages import Content, Message

SUPPORTED_TYPES = {"image/gif", "image/jpeg", "image/png", "image/webp"}
"""The types that every vision model accepts."""
TYPE_ALIASES = {"image/jpg": "image/jpeg"}
"""Types from servers that providers refuse."""

DATA_URL_HEAD = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.IGNORECASE
)

Part = Mapping[str, Any]


def showable_content(content: Content) -> Content:
    """Return a result's content with text in place of unsupported parts.

    Tool output must never cause a provider to refuse the request.
    """
    if content is None or isinstance(content, str):
        return content
    return [dict(_showable_part(part)) for part in content]


def _showable_part(part: Part) -> Part:
    kind = part.get("type")
    if kind == "text":
        return part
    if kind != "image_url":
        return _text_part(f"({kind}, not shown)")
    url = part["image_url"]["url"]
    if url.startswith(("https://", "http://")):
        return part
    head = DATA_URL_HEAD.match(url)
    stated_type = head[1].lower() if head else "an image"
    media_type = TYPE_ALIASES.get(stated_type, stated_type)
    if head is None or media_type not in SUPPORTED_TYPES:
        return _text_part(f"({stated_type}, not shown)")
    supported_url = f"data:{media_type};base64,{url[head.end() :]}"
    return {**part, "image_url": {**part["image_url"], "url": supported_url}}


def _text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def move_images_after_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with tool images moved to a user message after the results.

    For wires with text-only results. Results of one round stay together, as every
    provider requires.
    """
    if not any(m.role == "tool" and _has_parts(m) for m in messages):
        return messages
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    moved: list[Message] = []
    pending_images: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool" and pending_images:
            moved.append(Message("user", pending_images))
            pending_images = []
        if _has_parts(message):
            message, images = _split_images(message)
            name = names.get(message.tool_call_id or "", "")
            pending_images += _image_parts(name, images)
        moved.append(message)
    if pending_images:
        moved.append(Message("user", pending_images))
    return moved


def _has_parts(message: Message) -> bool:
    content = message.content
    return message.role == "tool" and content is not None and type(content) is not str


def _split_images(message: Message) -> tuple[Message, list[dict[str, Any]]]:
    """Return a result as text, and its images."""
    content = showable_content(message.content)
    parts: Sequence[dict[str, Any]] = content if isinstance(content, list) else ()
    texts = [part["text"] for part in parts if part["type"] == "text"]
    images = [part for part in parts if part["type"] != "text"]
    if images:
        noun = "1 image" if len(images) == 1 else f"{len(images)} images"
        texts.append(f"({noun}, shown after the tool results)")
    return replace(message, content="\n".join(texts)), images


def _image_parts(name: str, images: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if not images:
        return []
    return [_text_part(f"(returned by the tool '{name}')"), *images]
