"""Additional data of agents' pages, besides their configuration."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.config import AgentConfig
from config import live
from studio.configuration import agent_references
from telemetry.statistics import agent_totals
from telemetry.statistics.agent_totals import AgentTotals

DAY = timedelta(days=1)


def load_overview() -> Mapping[str, Any]:
    """Return each agent's last day, by name; in one query."""
    totals = agent_totals.totals_by_agent(datetime.now(UTC) - DAY)
    return {name: {"last_day": asdict(day)} for name, day in totals.items()}


def load_details(name: str, agent: AgentConfig | None) -> Mapping[str, Any]:
    """Return an agent's last day, its references, tools and effective settings."""
    totals = agent_totals.totals_by_agent(datetime.now(UTC) - DAY, name)
    references = agent_references.find_references(live.current(), name)
    return {
        "last_day": asdict(totals.get(name, AgentTotals())),
        "references": [each._asdict() for each in references],
        "uses": [] if agent is None else list_uses(agent),
        "settings": {} if agent is None else effective_settings(agent),
    }


def list_uses(agent: AgentConfig) -> list[dict[str, str]]:
    """Return what an agent may use: tools, other agents, skills, memory."""
    uses = [
        {
            "kind": "MCP",
            "name": grant.server,
            "detail": "all tools" if grant.only is None else ", ".join(grant.only),
        }
        for grant in agent.mcp_tools
    ]
    uses += [{"kind": "agent", "name": name, "detail": ""} for name in agent.subagents]
    uses += [{"kind": "skill", "name": name, "detail": ""} for name in agent.skills]
    if agent.memory_tools:
        uses.append({"kind": "memory", "name": "memory tools", "detail": ""})
    if agent.task_tools:
        tools = agent.task_tools
        detail = "" if isinstance(tools, bool) else ", ".join(tools)
        uses.append({"kind": "tasks", "name": "task tools", "detail": detail})
    return uses


def effective_settings(agent: AgentConfig) -> dict[str, Any]:
    """Return an agent's effective settings, including the defaults."""
    fields = {"provider", "model", "max_turns", "context_tokens", "memory", "judges"}
    return {**agent.model_dump(mode="json", include=fields), **agent.parameters}
