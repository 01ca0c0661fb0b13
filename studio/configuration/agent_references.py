"""References to an agent in the whole configuration."""

from collections.abc import Iterator
from typing import NamedTuple

from access.limits.config import LIMITS
from agents.config import AGENTS
from config.sections import Config
from experiments.config import EXPERIMENTS
from smoke.config import SMOKE_TESTS
from triggers.config import TRIGGERS


class AgentReference(NamedTuple):
    """A configuration entry that names the agent."""

    kind: str
    """`agent`, `experiment`, `trigger`, `smoke test`, `limit`."""
    name: str
    relation: str
    """The agent's role there."""


def find_references(config: Config, name: str) -> list[AgentReference]:
    """Return the references to an agent, in the order of the file's sections."""
    return [*_agent_references(config, name), *_other_references(config, name)]


def _agent_references(config: Config, name: str) -> Iterator[AgentReference]:
    for agent in config.get(AGENTS).values():
        if name in agent.subagents:
            yield AgentReference("agent", agent.name, "calls it")
        if name in agent.fallbacks:
            yield AgentReference("agent", agent.name, "falls back to it")


def _other_references(config: Config, name: str) -> Iterator[AgentReference]:
    for experiment in config.get(EXPERIMENTS).values():
        if name in experiment.agents:
            is_primary = name == experiment.primary
            relation = "its primary variant" if is_primary else "a variant"
            yield AgentReference("experiment", experiment.name, relation)
    for trigger in config.get(TRIGGERS):
        if trigger.agent == name:
            yield AgentReference("trigger", trigger.name, "starts it")
    for test in config.get(SMOKE_TESTS).values():
        if test.target == name:
            yield AgentReference("smoke test", test.name, "tests it")
    for limit in config.get(LIMITS):
        if limit.per == "agent" and limit.name == name:
            yield AgentReference("limit", name, "limits it")
