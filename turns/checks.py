"""Checks that agents, limits and safety checks refer to existing agents.

| id | what is wrong |
|---|---|
| coulisse.E206 | an agent calls a subagent that does not exist |
| coulisse.E211 | a limit is for an agent that does not exist |
| coulisse.E852 | a safety check is for an agent that does not exist |
| coulisse.E853 | a safety check hands over to an agent that does not exist |
"""

from collections.abc import Iterable

from access.limits.config import LIMITS, Limit
from agents.config import AGENTS
from config.sections import Config, Problem
from config.validation.suggestions import did_you_mean
from safety.config import SAFETY
from turns.preparation import routing


def check_names(config: Config) -> Iterable[Problem]:
    """Yield references to agents or experiments that do not exist."""
    names = routing.list_names(config)
    for index, agent in enumerate(config.get(AGENTS).values()):
        for position, name in enumerate(agent.subagents):
            if name not in names:
                yield Problem(
                    ("agents", index, "subagents", position),
                    f"agent '{agent.name}' calls agent '{name}', which does not exist"
                    f"{did_you_mean(name, names)}",
                    "coulisse.E206",
                )
    limits: tuple[Limit, ...] = config.get(LIMITS)
    for index, limit in enumerate(limits):
        if limit.per == "agent" and limit.name not in (None, *names):
            yield Problem(
                ("limits", index, "name"),
                f"a limit is for agent '{limit.name}', which does not exist"
                f"{did_you_mean(limit.name or '', names)}",
                "coulisse.E211",
            )


def check_safety(config: Config) -> Iterable[Problem]:
    """Yield references of safety checks to agents that do not exist."""
    agents = config.get(AGENTS)
    names = routing.list_names(config)
    for index, check in enumerate(config.get(SAFETY).checks):
        location = ("safety", "checks", index)
        for position, name in enumerate(() if check.agents == "all" else check.agents):
            if name not in agents:
                yield Problem(
                    (*location, "agents", position),
                    f"check '{check.name}' is for agent '{name}', which does not exist"
                    f"{did_you_mean(name, agents)}",
                    "coulisse.E852",
                )
        for level, action in check.actions.items():
            target = action.hand_over
            if target is not None and target not in names:
                yield Problem(
                    (*location, "actions", level, "hand_over"),
                    f"check '{check.name}' hands over to agent '{target}', which does "
                    f"not exist{did_you_mean(target, names)}",
                    "coulisse.E853",
                )
