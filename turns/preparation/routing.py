"""Resolves a name to an agent: the agent of that name, or a variant of an experiment.

Agents and experiments share one namespace, so clients cannot tell them apart.
"""

from collections.abc import Collection
from dataclasses import dataclass

from agents.config import AGENTS, AgentConfig
from agents.errors import AgentUnknown
from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.ids import UserId
from core.text.sanitization import escape_and_truncate
from experiments import assignment, bandits
from experiments.config import EXPERIMENTS


@dataclass(frozen=True, slots=True)
class Route:
    """The agent that answers, and the name that selected it."""

    agent: AgentConfig
    experiment: str = ""
    """The experiment that selected it; "" if the agent was requested directly."""


def list_names(config: Config) -> list[str]:
    """Return all requestable names: agents first, then experiments."""
    return [*config.get(AGENTS), *config.get(EXPERIMENTS)]


def exists(config: Config, name: str) -> bool:
    """Return whether an agent or experiment has that name."""
    return name in config.get(AGENTS) or name in config.get(EXPERIMENTS)


def check_name(
    config: Config,
    name: str,
    *,
    allowed: Collection[str] | None = None,
    param: str = "model",
) -> None:
    """Raise `AgentUnknown` for a name that no agent or experiment has.

    `allowed` are the names that the caller may use. For all other names the error is
    the same, whether they exist or not. `param` is where the request has the name.
    """
    if exists(config, name) and (allowed is None or name in allowed):
        return
    names = [each for each in list_names(config) if allowed is None or each in allowed]
    raise AgentUnknown(
        f"The model '{escape_and_truncate(name)}' does not exist: no agent has that "
        f"name{did_you_mean(name, names)}",
        param=param,
    )


def purpose_of(config: Config, name: str) -> str | None:
    """Return the public description of an agent or an experiment, if it has one."""
    entry = config.get(AGENTS).get(name) or config.get(EXPERIMENTS).get(name)
    return None if entry is None else entry.purpose


async def choose_agent(config: Config, name: str, user_id: UserId) -> Route:
    """Return the agent that answers this user for `name`; raises `AgentUnknown`.

    An agent's own name needs no I/O. A bandit reads its variants' scores from the
    database from time to time.
    """
    agent = config.get(AGENTS).get(name)
    if agent is not None:
        return Route(agent)
    check_name(config, name)
    experiment = config.get(EXPERIMENTS)[name]
    if experiment.strategy == "bandit":
        variant = await bandits.choose_variant(config, experiment, user_id)
    else:
        variant = assignment.choose_variant(experiment, user_id)
    return Route(config.get(AGENTS)[variant], name)
