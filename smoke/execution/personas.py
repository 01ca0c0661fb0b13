"""Generates a persona's messages."""

from collections.abc import Sequence
from contextlib import aclosing

from config.sections import Config
from core import token_usage
from core.ids import UserId
from core.reply import Reply
from core.trace import ModelCall
from providers import client
from providers.config import PROVIDERS
from providers.model_request import ModelRequest
from providers.pricing import call_costs
from smoke.config import PersonaConfig
from smoke.errors import PersonaUnavailable
from smoke.execution import dialogue
from smoke.execution.dialogue import Utterance


async def next_message(
    config: Config,
    persona: PersonaConfig,
    utterances: Sequence[Utterance],
    user_id: UserId,
) -> tuple[str, ModelCall]:
    """Return a persona's next message, and its model call.

    Raises what `providers.errors` lists, and `PersonaUnavailable` if its provider is no
    longer configured.
    """
    provider = config.get(PROVIDERS).get(persona.provider)
    if provider is None:
        raise PersonaUnavailable(
            f"the persona's provider '{persona.provider}' is not under providers:"
        )
    messages = dialogue.persona_messages(persona.preamble, utterances)
    request = ModelRequest(
        persona.model,
        messages,
        parameters=persona.parameters,
        extra_body=persona.extra_body,
        stream=False,
        user=user_id.hex,
    )
    call = ModelCall("persona", persona.provider, persona.model)
    reply = Reply()
    events = client.run(persona.provider, provider, request, call.attempts)
    async with aclosing(events):
        async for event in events:
            reply.add(event)
    call.end()
    call.usage = token_usage.count_usage(messages, reply)
    call.finish_reason = reply.finish_reason or ""
    call.cost_micro_usd = call_costs.call_cost(
        config, persona.provider, persona.model, call.usage, at=call.started_at
    )
    return reply.text or reply.refusal, call
