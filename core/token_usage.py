"""The token usage of a model call, estimated if the provider has no count.

One function estimates the sent tokens. It is used for the reservation before a call,
for the remaining context of an agent, and for the charge of a call without a provider's
count.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core import token_estimates
from core.events import Usage
from core.messages import Message
from core.reply import Reply


def estimate_sent(
    messages: Iterable[Message],
    *,
    tool_tokens: int = 0,
    response_format: Mapping[str, Any] | None = None,
) -> int:
    """Return an estimate of the tokens that a call with these messages sends.

    `tool_tokens` is `token_estimates.estimate_json` of the tool definitions: large ones
    are counted once for many calls. `response_format` is OpenAI's, for the providers
    that receive it.
    """
    total = tool_tokens + sum(map(token_estimates.estimate_message, messages))
    if response_format is not None:
        total += token_estimates.estimate_json(response_format)
    return total


def count_usage(
    messages: Sequence[Message],
    reply: Reply,
    *,
    tool_tokens: int = 0,
    response_format: Mapping[str, Any] | None = None,
) -> Usage:
    """Return the provider's count of a call, 0 included, or else an estimate of it."""
    if reply.usage is not None:
        return reply.usage
    received = 0
    if reply.has_begun:
        received = token_estimates.estimate_text(reply.reasoning)
        received += token_estimates.estimate_message(
            reply.message(), with_reasoning=False
        )
    sent = estimate_sent(
        messages, tool_tokens=tool_tokens, response_format=response_format
    )
    return Usage(input_tokens=sent, output_tokens=received)
