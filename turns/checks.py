"""Checks that agents and limits refer to existing agents and experiments.

| id | what is wrong |
|---|---|
| coulisse.E206 | an agent calls a subagent that does not exist |
| coulisse.E211 | a limit is for an agent that does not exist |
"""

from collections.abc import Iterable

from access.limits.config import LIMITS, Limit
from agents.config import AGENTS
from config.sections import Config, Problem
from config.validation.suggestions import did_you_mean
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
