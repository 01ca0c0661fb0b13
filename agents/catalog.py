"""The agents a client can name."""

from difflib import get_close_matches

from agents.config import AGENTS, AgentConfig
from agents.errors import AgentUnknown
from config.sections import Config


def find(config: Config, name: str) -> AgentConfig:
    """Return the agent clients call `name`; raises `AgentUnknown`."""
    agents = config.get(AGENTS)
    agent = agents.get(name)
    if agent is None:
        near = get_close_matches(name, agents, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AgentUnknown(
            f"The model '{name}' does not exist: no agent has that name{hint}",
            param="model",
        )
    return agent
