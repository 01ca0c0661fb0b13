"""Who refers to an agent, in all the configuration."""

from collections.abc import Iterator
from typing import NamedTuple

from access.limits.config import LIMITS
from agents.config import AGENTS
from config.sections import Config
from experiments.config import EXPERIMENTS
from smoke.config import SMOKE_TESTS
from triggers.config import TRIGGERS


class Reference(NamedTuple):
    """Something that names it."""

    kind: str
    """`agent`, `experiment`, `trigger`, `smoke test`, `limit`."""
    name: str
    relation: str
    """What it is there."""


def of_agent(config: Config, name: str) -> list[Reference]:
    """Return what names an agent, in the order of the file's sections."""
    return [*_agents(config, name), *_others(config, name)]


def _agents(config: Config, name: str) -> Iterator[Reference]:
    for agent in config.get(AGENTS).values():
        if name in agent.subagents:
            yield Reference("agent", agent.name, "calls it")
        if name in agent.fallbacks:
            yield Reference("agent", agent.name, "falls back to it")


def _others(config: Config, name: str) -> Iterator[Reference]:
    for experiment in config.get(EXPERIMENTS).values():
        if name in experiment.agents:
            is_primary = name == experiment.primary
            how = "its primary variant" if is_primary else "a variant"
            yield Reference("experiment", experiment.name, how)
    for trigger in config.get(TRIGGERS):
        if trigger.agent == name:
            yield Reference("trigger", trigger.name, "starts it")
    for test in config.get(SMOKE_TESTS).values():
        if test.target == name:
            yield Reference("smoke test", test.name, "talks to it")
    for limit in config.get(LIMITS):
        if limit.per == "agent" and limit.name == name:
            yield Reference("limit", name, "limits it")
