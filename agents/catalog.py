"""The agents a client can name."""

from collections.abc import Collection

from agents.config import AGENTS, AgentConfig
from agents.errors import AgentUnknown
from config.sections import Config
from config.spelling import did_you_mean


def find(
    config: Config, name: str, *, offered: Collection[str] | None = None
) -> AgentConfig:
    """Return the agent clients call `name`; raises `AgentUnknown`.

    Where some alone are offered, the others are as if they were not there.
    """
    agents = config.get(AGENTS)
    if offered is not None:
        agents = {name: agents[name] for name in agents if name in offered}
    agent = agents.get(name)
    if agent is None:
        raise AgentUnknown(
            f"The model '{name}' does not exist: no agent has that name"
            f"{did_you_mean(name, agents)}",
            param="model",
        )
    return agent
