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
    found = agent_totals.totals_by_agent(datetime.now(UTC) - DAY)
    return {name: {"last_day": asdict(day)} for name, day in found.items()}


def load_details(name: str, agent: AgentConfig | None) -> Mapping[str, Any]:
    """Return an agent's last day, its references and the things it may use."""
    day = agent_totals.totals_by_agent(datetime.now(UTC) - DAY, name).get(
        name, AgentTotals()
    )
    named = agent_references.find_references(live.current(), name)
    return {
        "last_day": asdict(day),
        "referred_by": [each._asdict() for each in named],
        "uses": [] if agent is None else list_uses(agent),
        "settings": {} if agent is None else effective_settings(agent),
    }


def list_uses(agent: AgentConfig) -> list[dict[str, str]]:
    """Return what an agent may use: tools, other agents, skills, memory."""
    found = [
        {
            "kind": "MCP",
            "name": grant.server,
            "what": "all tools" if grant.only is None else ", ".join(grant.only),
        }
        for grant in agent.mcp_tools
    ]
    found += [{"kind": "agent", "name": name, "what": ""} for name in agent.subagents]
    found += [{"kind": "skill", "name": name, "what": ""} for name in agent.skills]
    if agent.memory_tools:
        found.append({"kind": "memory", "name": "memory tools", "what": ""})
    if agent.task_tools:
        which = agent.task_tools
        what = "" if isinstance(which, bool) else ", ".join(which)
        found.append({"kind": "tasks", "name": "task tools", "what": what})
    return found


def effective_settings(agent: AgentConfig) -> dict[str, Any]:
    """Return an agent's effective settings, including the defaults."""
    shown = {"provider", "model", "max_turns", "context_tokens", "memory", "judges"}
    told = agent.model_dump(mode="json", include=shown)
    return {**told, **agent.parameters}
