"""Calls of background work: the whole reply, and the call in the task's trace."""

from contextlib import aclosing
from dataclasses import replace

from core import trace
from core.reply import Reply
from core.trace import Attempt
from providers import client
from providers.config import ProviderConfig
from providers.model_request import ModelRequest


async def fetch(
    provider_name: str,
    provider: ProviderConfig,
    request: ModelRequest,
    attempts: list[Attempt] | None = None,
) -> Reply:
    """Return the reply to a request; raises as `client.run`, and fills `attempts`."""
    reply = Reply()
    with trace.task_call("", provider_name, request.model) as call:
        traced = replace(request, stream=False, span=call.span)
        sent = call.attempts if attempts is None else attempts
        stream = client.run(provider_name, provider, traced, sent)
        async with aclosing(stream) as events:
            async for event in events:
                reply.add(event)
        call.usage, call.finish_reason = reply.usage, reply.finish_reason or ""
    return reply
