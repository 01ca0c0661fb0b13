"""The agents a client can name."""

from agents.config import AGENTS, AgentConfig
from agents.errors import AgentUnknown
from config.sections import Config
from config.spelling import did_you_mean


def find(config: Config, name: str) -> AgentConfig:
    """Return the agent clients call `name`; raises `AgentUnknown`."""
    agents = config.get(AGENTS)
    agent = agents.get(name)
    if agent is None:
        raise AgentUnknown(
            f"The model '{name}' does not exist: no agent has that name"
            f"{did_you_mean(name, agents)}",
            param="model",
        )
    return agent
