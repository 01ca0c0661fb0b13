"""Additional data of agents' pages, besides their configuration."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from access.limits.config import LIMITS
from agents import prompt_limit
from agents.config import AGENTS, AgentConfig
from config import live
from config.sections import Config
from experiments.config import EXPERIMENTS
from smoke.config import SMOKE_TESTS
from telemetry.models import Turn
from telemetry.models.turn_totals import COST_AGGREGATES
from telemetry.statistics.recent_activity import AgentStats
from triggers.config import TRIGGERS

DAY = timedelta(days=1)


class LastDay(BaseModel, from_attributes=True):
    """The last 24 hours of an agent; money in micro-USD."""

    turns: int
    failed: int = Field(validation_alias="errors")
    micro_usd: int = Field(description="Without the unpriced turns.")
    unpriced: int = Field(description="Turns with a call that has no price.")
    p50_seconds: float | None = Field(description="Median of the complete replies.")


class AgentOverview(BaseModel):
    """The last day of an agent; empty unless requested."""

    last_day: LastDay | None = None


class AgentReferenceDetail(BaseModel):
    """A configuration entry that names an agent."""

    kind: str
    name: str
    relation: str


class AgentUse(BaseModel):
    """Something an agent may use."""

    kind: Literal["MCP", "agent", "memory", "skill", "state", "tasks"]
    name: str
    detail: str = ""


class AgentDetails(BaseModel):
    """The activity of an agent, its references, tools and effective settings."""

    last_day: LastDay
    references: list[AgentReferenceDetail]
    uses: list[AgentUse]
    settings: dict[str, JsonValue] = Field(
        description="The agent's own fields and its model parameters."
    )


def load_overview() -> Mapping[str, AgentOverview]:
    """Return each agent's last day, by name; in two queries."""
    return {name: AgentOverview(last_day=day) for name, day in _last_days().items()}


def load_details(name: str, agent: AgentConfig | None) -> AgentDetails:
    """Return an agent's last day, its references, tools and effective settings."""
    return AgentDetails(
        last_day=_last_days(name).get(name)
        or LastDay.model_validate(AgentStats(agent=name)),
        references=list(find_references(live.current(), name)),
        uses=[] if agent is None else list(list_uses(agent)),
        settings={} if agent is None else effective_settings(live.current(), agent),
    )


def _last_days(agent: str | None = None) -> dict[str, LastDay]:
    """Return the last day of each agent, or of one; shadow runs are not counted."""
    turns = Turn.objects.filter(started_at__gte=datetime.now(UTC) - DAY)
    if agent is not None:
        turns = turns.filter(agent=agent)
    turns = turns.without_shadow_runs()
    durations: dict[str, list[float]] = defaultdict(list)
    for name, seconds in turns.durations_by("agent"):
        durations[name] += seconds
    days = {}
    for name, totals in turns.totals_by("agent", names=(*COST_AGGREGATES, "errors")):
        day = AgentStats(agent=name, **dict(totals))
        day.set_percentiles(durations[name])
        days[name] = LastDay.model_validate(day)
    return days


def find_references(config: Config, name: str) -> Iterator[AgentReferenceDetail]:
    """Yield the references to an agent, in the order of the file's sections."""
    found = (*_variant_references(config, name), *_other_references(config, name))
    for kind, entry, relation in found:
        yield AgentReferenceDetail(kind=kind, name=entry, relation=relation)


def _variant_references(config: Config, name: str) -> Iterator[tuple[str, str, str]]:
    for agent in config.get(AGENTS).values():
        if name in agent.subagents:
            yield "agent", agent.name, "calls it"
        if name in agent.fallbacks:
            yield "agent", agent.name, "falls back to it"
    for experiment in config.get(EXPERIMENTS).values():
        if name in experiment.agents:
            is_primary = name == experiment.primary
            relation = "its primary variant" if is_primary else "a variant"
            yield "experiment", experiment.name, relation


def _other_references(config: Config, name: str) -> Iterator[tuple[str, str, str]]:
    for trigger in config.get(TRIGGERS):
        if trigger.agent == name:
            yield "trigger", trigger.name, "starts it"
    for test in config.get(SMOKE_TESTS).values():
        if test.target == name:
            yield "smoke test", test.name, "tests it"
    for limit in config.get(LIMITS):
        if limit.per == "agent" and limit.name == name:
            yield "limit", name, "limits it"


def list_uses(agent: AgentConfig) -> Iterator[AgentUse]:
    """Yield what an agent may use: tools, other agents, skills, memory."""
    for grant in agent.mcp_tools:
        detail = "all tools" if grant.only is None else ", ".join(grant.only)
        yield AgentUse(kind="MCP", name=grant.server, detail=detail)
    for name in agent.subagents:
        yield AgentUse(kind="agent", name=name)
    for name in agent.skills:
        yield AgentUse(kind="skill", name=name)
    if agent.memory_tools:
        yield AgentUse(kind="memory", name="memory tools")
    if agent.state:
        yield AgentUse(kind="state", name=", ".join(agent.state))
    if agent.task_tools:
        tools = agent.task_tools
        detail = "" if isinstance(tools, bool) else ", ".join(tools)
        yield AgentUse(kind="tasks", name="task tools", detail=detail)


def effective_settings(config: Config, agent: AgentConfig) -> dict[str, Any]:
    """Return an agent's effective settings, including the defaults."""
    fields = {"provider", "model", "max_turns", "context_tokens", "memory", "judges"}
    return {
        **agent.model_dump(mode="json", include=fields),
        "context_tokens": prompt_limit.context_tokens(config, agent),
        **agent.parameters,
    }
