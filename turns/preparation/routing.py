"""Which agent answers to a name: the agent of that name, or a variant of an experiment.

Agents and experiments share their names, so a client that asks for either is none the
wiser.
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
    """Who answers, and what chose them."""

    agent: AgentConfig
    experiment: str = ""
    """The experiment it is a variant of; "" where it was asked for itself."""


def list_names(config: Config) -> list[str]:
    """Return all that can be asked for: agents first, then experiments."""
    return [*config.get(AGENTS), *config.get(EXPERIMENTS)]


def exists(config: Config, name: str) -> bool:
    """Return whether anything goes by that name."""
    return name in config.get(AGENTS) or name in config.get(EXPERIMENTS)


def check_name(
    config: Config, name: str, *, offered: Collection[str] | None = None
) -> None:
    """Raise `AgentUnknown` for a name that no agent or experiment has.

    `offered` are the names a caller may use: to them the others do not exist, and
    nothing in the error tells a name that exists from one that does not.
    """
    if exists(config, name) and (offered is None or name in offered):
        return
    known = [each for each in list_names(config) if offered is None or each in offered]
    raise AgentUnknown(
        f"The model '{escape_and_truncate(name)}' does not exist: no agent has that name"
        f"{did_you_mean(name, known)}",
        param="model",
    )


def purpose_of(config: Config, name: str) -> str | None:
    """Return what others are told of an agent or an experiment, if anything."""
    found = config.get(AGENTS).get(name) or config.get(EXPERIMENTS).get(name)
    return None if found is None else found.purpose


async def choose_agent(config: Config, name: str, user_id: UserId) -> Route:
    """Return who answers a user who asks for `name`; raises `AgentUnknown`.

    An agent is found at once. A bandit asks the database for its variants' scores, now
    and then.
    """
    agent = config.get(AGENTS).get(name)
    if agent is not None:
        return Route(agent)
    check_name(config, name)
    experiment = config.get(EXPERIMENTS)[name]
    if experiment.strategy == "bandit":
        chosen = await bandits.choose_variant(config, experiment, user_id)
    else:
        chosen = assignment.choose_variant(experiment, user_id)
    return Route(config.get(AGENTS)[chosen], name)
