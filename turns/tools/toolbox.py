"""Tools of an agent in a turn: memory, skills, other agents, MCP servers.

Each tool is bound to one turn and its user; no argument from the model can select
another user.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agents import fallback_chain
from agents.config import AgentConfig
from agents.function_tools import FunctionTool
from agents.skills import skill_registry
from agents.subagents import ResolvedAgent, Subagent
from config.sections import Config
from core.errors import Invalid
from core.ids import UserId
from core.text.sanitization import escape_and_truncate
from core.tools import Tool
from core.validation import tool_names
from mcp_bridge import toolset
from mcp_bridge.toolset import ServerGrant
from memory import memory_settings
from memory.config import scope_key
from turns.preparation import routing
from turns.preparation.options import TurnOptions
from turns.tools import (
    mcp_sessions,
    memory_tools,
    readonly_tools,
    state_tool,
    task_tools,
)
from turns.tools.forget_tool import ConfirmationContext
from turns.tools.state_tool import TurnState
from turns.turn import TurnRequest


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Makes the tools of all agents in one turn."""

    config: Config
    user_id: UserId
    options: TurnOptions
    depth: int = 0
    """Number of agents above the one whose tools it makes."""
    request: TurnRequest | None = None
    """The turn's request; None outside a turn."""
    state: TurnState | None = None
    """The state that the tool of the turn's own agent changes."""
    is_thread_known: bool = True
    """False if the client sends its conversation without naming the thread."""
    is_shadow_run: bool = False
    """Whether tools that may change something are replaced by stubs."""

    async def open(self, agent: AgentConfig) -> list[Tool]:
        """Return all tools of an agent, under unique names.

        If an MCP server is unreachable, only its tools are missing.
        """
        tools: list[Tool] = [
            *self._memory(agent),
            *self._state(),
            *self._subagents(agent),
            *self._skills(agent),
            *self._tasks(agent),
            *await self._servers(agent),
        ]
        if self.is_shadow_run:
            tools = [readonly_tools.make_read_only(tool) for tool in tools]
        return make_names_unique(tools)

    def _memory(self, agent: AgentConfig) -> Iterable[Tool]:
        if not agent.memory_tools or self.options.is_memory_off:
            return ()
        settings, user_memory = memory_settings.resolve_for_agent(
            self.config, agent.name
        )
        if settings.scope == "thread" and not self.is_thread_known:
            return ()
        return memory_tools.make_tools(
            self.user_id,
            agent.name,
            user_memory,
            scope=scope_key(settings.scope, agent.name, self.options.thread),
            context=self._confirmation_context(),
        )

    def _confirmation_context(self) -> ConfirmationContext | None:
        request = self.request
        if request is None:
            return None
        if request.spoken_turn is not None:
            return ConfirmationContext(
                request.spoken_turn, self.options.thread, is_of_user=True
            )
        is_message = bool(request.messages) and request.messages[-1].role == "user"
        return ConfirmationContext(
            request.turn_id,
            self.options.thread,
            is_of_user=is_message and request.learns and request.origin == "chat",
        )

    def _state(self) -> Iterable[Tool]:
        return () if self.state is None else (state_tool.make_tool(self.state),)

    def _subagents(self, agent: AgentConfig) -> Iterable[Tool]:
        if not agent.subagents:
            return
        nested = replace(self, depth=self.depth + 1, state=None)
        for name in agent.subagents:
            yield Subagent(
                name,
                routing.purpose_of(self.config, name),
                partial(self._resolve_agent, name),
                nested.open,
                depth=nested.depth,
                user=self.user_id.hex,
            )

    async def _resolve_agent(self, name: str) -> ResolvedAgent:
        route = await routing.choose_agent(self.config, name, self.user_id)
        return ResolvedAgent(
            route.agent, fallback_chain.models_for(self.config, route.agent)
        )

    def _skills(self, agent: AgentConfig) -> Iterable[Tool]:
        return (
            skill_registry.make_tools(self.config, agent.skills) if agent.skills else ()
        )

    def _tasks(self, agent: AgentConfig) -> Iterable[Tool]:
        if self.request is None:
            return ()
        return task_tools.make_tools(self.config, self.user_id, self.request, agent)

    async def _servers(self, agent: AgentConfig) -> Iterable[Tool]:
        if not agent.mcp_tools:
            return ()
        return await toolset.open_tools(
            self.config,
            [ServerGrant(grant.server, grant.only) for grant in agent.mcp_tools],
            self.user_id,
            pool=mcp_sessions.POOL,
            credentials=mcp_sessions.TOKEN_MANAGER,
            is_interactive=self.request is None
            or self.request.origin in ("chat", "voice"),
        )


def make_names_unique(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools with unique names: the first of a name keeps it.

    Later ones are distinguished by their source, or by a number.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        name = tool.name
        if name in named:
            name = _unique_name(tool, named)
            tool = FunctionTool(
                tool.kind,
                name,
                tool.description,
                tool.parameters,
                tool.call,
                tool.target,
            )
        named[name] = tool
    return list(named.values())


def _unique_name(tool: Tool, tools: Mapping[str, Tool]) -> str:
    base = tool_names.to_safe_name(f"{tool.target or tool.kind}_{tool.name}")
    number, name = 2, base
    while name in tools:
        name = tool_names.to_safe_name(f"{base}_{number}")
        number += 1
    return name


def check_names(
    agent: AgentConfig,
    tools: Sequence[Tool],
    client_tools: Sequence[dict[str, Any]],
) -> None:
    """Raise `Invalid` if a tool of the client has the name of an agent's tool."""
    own = {tool.name for tool in tools}
    for tool in client_tools:
        name = tool["function"]["name"]
        if name in own:
            raise Invalid(
                f"the tool '{escape_and_truncate(name)}' has the same name as a tool "
                f"of agent '{agent.name}'; rename it",
                param="tools",
            )
