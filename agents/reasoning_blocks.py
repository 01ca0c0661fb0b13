"""A model's thinking, which goes back to that model and to no other.

Providers prove by signatures that thinking is their own and refuse what is not.
"""

from collections.abc import Sequence
from dataclasses import replace

from core.messages import Message, Reasoning


def sign(message: Message, model: str) -> Message:
    """Return a reply with the name of the model on what it thought."""
    if not message.reasoning:
        return message
    blocks = tuple(replace(block, model=model) for block in message.reasoning)
    return replace(message, reasoning=blocks)


def drop_foreign(messages: Sequence[Message], model: str) -> Sequence[Message]:
    """Return the messages as a model is told them: without what others thought."""
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
    # What was stored before anybody noted whose it is may well be.
    return block.model in ("", model)
