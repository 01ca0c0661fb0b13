"""Calls of the extraction model, without streaming and with a time limit."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from core.messages import Message
from memory.memory_settings import ExtractionModel
from providers import registry, sync_bridge, whole_replies
from providers.errors import RequestRefused
from providers.model_request import ModelRequest

TIMEOUT_SECONDS = 90.0
"""Seconds per answer, retries included."""
LOCAL_MAX_TOKENS = 400
"""The token limit of the local model, which delays agents' replies meanwhile."""


class LlmReply(NamedTuple):
    text: str
    is_complete: bool
    """False when the token limit cut it off."""


def call_model(
    model: ExtractionModel,
    messages: Sequence[Message],
    *,
    response_format: Mapping[str, Any] | None = None,
    user: str = "",
) -> LlmReply:
    """Return the extraction model's reply, at the lowest temperature it allows.

    `response_format` is sent to providers that enforce it. Blocks. Raises the errors of
    `providers.errors`, and TimeoutError.
    """
    parameters: dict[str, Any] = {}
    if not registry.find_unsupported_parameters(model.provider, ["temperature"]):
        parameters["temperature"] = 0
    if model.provider.kind == "local":
        parameters["max_tokens"] = LOCAL_MAX_TOKENS
    if response_format and registry.structured_outputs(model.provider) == "native":
        parameters["response_format"] = response_format
    return sync_bridge.run_sync(
        _call_with_fallback(model, messages, parameters, user),
        timeout_seconds=TIMEOUT_SECONDS,
    )


async def _call_with_fallback(
    model: ExtractionModel,
    messages: Sequence[Message],
    parameters: dict[str, Any],
    user: str,
) -> LlmReply:
    try:
        return await _call(model, messages, parameters, user)
    except RequestRefused:
        if not parameters:
            raise
        # Reasoning models take no temperature, many servers no schema, and not every
        # refusal names the parameter. Both are optional, so retry without them.
        return await _call(model, messages, {}, user)


async def _call(
    model: ExtractionModel,
    messages: Sequence[Message],
    parameters: dict[str, Any],
    user: str,
) -> LlmReply:
    request = ModelRequest(
        model.model, messages, parameters=parameters, user=user or None
    )
    reply = await whole_replies.fetch(model.name, model.provider, request)
    return LlmReply(reply.text or reply.refusal, reply.finish_reason != "length")
