"""Adaptation of messages to a model: what it would refuse is left out.

Providers sign reasoning and refuse blocks without their own signature. Models without
vision refuse images, and all refuse prompts beyond their context window.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core.messages import Message, Reasoning

IMAGE_PLACEHOLDER = "(image removed: this model does not accept images)"


def sign_reasoning(message: Message, model: str) -> Message:
    """Return a reply whose reasoning blocks carry the name of the model."""
    if not message.reasoning:
        return message
    blocks = tuple(replace(block, model=model) for block in message.reasoning)
    return replace(message, reasoning=blocks)


def drop_foreign_reasoning(
    messages: Sequence[Message], model: str
) -> Sequence[Message]:
    """Return the messages without reasoning blocks of other models."""
    if all(_is_own(block, model) for each in messages for block in each.reasoning):
        return messages
    return [
        replace(
            message,
            reasoning=tuple(b for b in message.reasoning if _is_own(b, model)),
        )
        if message.reasoning
        else message
        for message in messages
    ]


def _is_own(block: Reasoning, model: str) -> bool:
    # Blocks stored before the model was recorded may be its own.
    return block.model in ("", model)


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


def first_fitting(
    messages: Sequence[Message], fits: Callable[[Sequence[Message]], bool]
) -> int:
    """Return the position from which on the newest messages fit: a user message.

    That of the last one if not even it fits with what follows it.
    """
    starts = [n for n, message in enumerate(messages) if message.role == "user"]
    first = bisect_left(starts, True, key=lambda start: fits(since(messages, start)))
    return starts[min(first, len(starts) - 1)] if starts else 0


def since(messages: Sequence[Message], start: int) -> list[Message]:
    """Return the messages from a position on, with all system messages."""
    system = [each for each in messages[:start] if each.role == "system"]
    return [*system, *messages[start:]]
