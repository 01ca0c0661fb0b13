"""An agent at work: its model is called until it is done.

Today one call is one turn: agents have no tools of their own, and a call to a client's
tool ends the turn.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from agents.config import AgentConfig
from core.events import Event
from core.messages import Message
from providers import client
from providers.calls import ModelCall
from providers.config import ProviderConfig

ONE_OF = ({"max_tokens", "max_completion_tokens"},)
"""Names of one thing: a request that sets either puts aside the agent's other."""


def parameters(agent: AgentConfig, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent's parameters with the request's in their place."""
    merged = {**agent.parameters, **requested}
    for names in ONE_OF:
        if names & requested.keys():
            for name in names - requested.keys():
                merged.pop(name, None)
    return merged


def run(
    agent: AgentConfig,
    provider: ProviderConfig,
    *,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    parameters: Mapping[str, Any],
    stream: bool,
    user: str,
) -> AsyncGenerator[Event]:
    """Yield what the agent's model says to the messages, `Finished` last."""
    call = ModelCall(
        model=agent.model,
        messages=messages,
        tools=tools,
        parameters=parameters,
        extra_body=agent.extra_body,
        stream=stream,
        user=user,
    )
    return client.run(agent.provider, provider, call)
