"""Reasoning blocks, which are sent back only to the model that produced them.

Providers sign reasoning and refuse blocks without their own signature.
"""

from collections.abc import Sequence
from dataclasses import replace

from core.messages import Message, Reasoning


def sign(message: Message, model: str) -> Message:
    """Return a reply whose reasoning blocks carry the name of the model."""
    if not message.reasoning:
        return message
    blocks = tuple(replace(block, model=model) for block in message.reasoning)
    return replace(message, reasoning=blocks)


def drop_foreign(messages: Sequence[Message], model: str) -> Sequence[Message]:
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
