"""Removal of images in tool results for models without vision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.messages import Message

IMAGE_PLACEHOLDER = "(image removed: this model does not accept images)"


def drop_images(messages: Sequence[Message]) -> list[Message] | None:
    """Return the messages without images in tool results, or None if there are none.

    Only the provider knows whether a model has vision: it refuses images otherwise. A
    tool result must not fail the turn.
    """
    if not any(_has_images(message) for message in messages):
        return None
    return [
        replace(message, content=_text_without_images(message))
        if _has_images(message)
        else message
        for message in messages
    ]


def _has_images(message: Message) -> bool:
    return message.role == "tool" and any(
        part.get("type") == "image_url" for part in _parts(message)
    )


def _text_without_images(message: Message) -> str:
    return "\n".join(part.get("text", IMAGE_PLACEHOLDER) for part in _parts(message))


def _parts(message: Message) -> Sequence[dict[str, Any]]:
    content = message.content
    return () if content is None or isinstance(content, str) else content
