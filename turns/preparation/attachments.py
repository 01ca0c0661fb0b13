"""Files in messages, for the models of an agent, which may not read all types."""

from collections.abc import Sequence
from dataclasses import replace

from agents import fallback_chain
from agents.config import AgentConfig
from config.sections import Config
from core.ids import UserId
from core.messages import Message
from files.parts import contents, references
from files.parts.readers import Reader
from providers import registry
from turns.turn import TurnRequest


async def describe_files(
    request: TurnRequest, config: Config, agent: AgentConfig
) -> TurnRequest:
    """Return the request with the names and types of its files.

    Raises `FileUnknown`, and `FileUnsupported` if the agent's models cannot read one.
    """
    if not references.has_files(request.messages):
        return request
    messages = await references.describe_files(
        request.user_id, request.messages, _reader(config, agent)
    )
    return replace(request, messages=messages)


async def load_files(
    user_id: UserId,
    prompt: Sequence[Message],
    config: Config,
    agent: AgentConfig,
    *,
    new: Sequence[Message] = (),
) -> Sequence[Message]:
    """Return the prompt with the contents of its files, as the models take them."""
    if not references.has_files(prompt):
        return prompt
    reader = _reader(config, agent)
    return await contents.resolve_files(user_id, prompt, reader, new=new)


def _reader(config: Config, agent: AgentConfig) -> Reader:
    models = fallback_chain.models_for(config, agent)
    # A fallback receives the same prompt.
    reads_pdf = all(registry.reads_pdf(model.provider) for model in models)
    return Reader(agent.name, agent.model, reads_pdf)
