"""What a call used, where its provider does not say."""

from collections.abc import Sequence

from core import tokens
from core.events import Usage
from core.messages import Message
from core.reply import Reply


def of(prompt: Sequence[Message], reply: Reply) -> Usage:
    """Return the provider's count of a call, or an estimate of it."""
    if reply.usage is not None:
        return reply.usage
    said = 0
    if reply.has_begun:
        said = tokens.estimate(reply.reasoning)
        said += tokens.estimate_message(reply.message())
    return Usage(
        input_tokens=sum(map(tokens.estimate_message, prompt)), output_tokens=said
    )
