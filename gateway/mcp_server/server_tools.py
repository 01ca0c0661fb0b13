"""The tools for MCP clients: agents, experiments, and the caller's memory.

Computed for each request, so an edit of the YAML applies at once.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import orjson
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, Field

from access.users.caller import Caller
from agents.function_tools import FunctionTool, ToolArguments, parse_arguments
from agents.tool_execution import result_text
from config.sections import Config
from core import token_estimates
from core.events import HandoffStarted, Usage
from core.ids import UserId
from core.messages import Message
from core.reply import Reply
from core.trace import TracedToolCall
from core.validation import tool_names
from gateway.config import MCP_SERVER
from gateway.mcp_server.exchange import McpExchange
from gateway.openai import serializers
from memory import memory_settings
from turns import flow
from turns.preparation import options, routing
from turns.tools import memory_tools
from turns.turn import TurnRequest

MEMORY_TOOL_NAMES = ("search_memory", "save_memory")
"""Reserved names; an agent with such a name is offered under another one."""

ACTOR = "mcp"
"""The author of saved facts in the history."""

DIGEST_LENGTH = 8
MAX_TEXT_LENGTH = 4_000
"""Characters of the longest argument of a memory tool."""

PLACEHOLDER_USER = UserId(uuid.UUID(int=0))
"""The user of memory tools that are only described, never called."""


class AskArguments(ToolArguments):
    message: str = Field(min_length=1, description="The message to the agent.")
    thread_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=options.MAX_THREAD_LENGTH,
        description="The name of a conversation; you choose it. The agent remembers "
        "the messages of each thread. Without it, the user's default thread is used.",
    )


class AskUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AskResult(BaseModel):
    reply: str = Field(description="The agent's reply.")
    agent: str
    turn_id: str
    thread_id: str | None
    finish_reason: str
    usage: AskUsage


class ServerTool(Protocol):
    """A tool of the MCP server."""

    @property
    def definition(self) -> Tool:
        """Return the tool's MCP definition."""

    def embedding_tokens(self, arguments: Mapping[str, Any]) -> int | None:
        """Return the approximate number of embedding tokens of a call.

        None for a tool that runs a turn, which the limits of turns cover.
        """

    async def call(
        self, user_id: UserId, arguments: Mapping[str, Any], exchange: McpExchange
    ) -> CallToolResult:
        """Run the tool for a user; raises subclasses of `CoulisseError`."""


def list_tools(config: Config, caller: Caller) -> dict[str, ServerTool]:
    """Return the tools that a caller may use now, by tool name."""
    tools: dict[str, ServerTool] = {}
    settings = config.get(MCP_SERVER)
    agents = routing.list_names(config)
    offered_agents = agents if settings.agents is None else settings.agents
    for name, agent in _agents_by_tool_name(agents).items():
        if agent in offered_agents and caller.may_call(agent):
            purpose = routing.purpose_of(config, agent)
            tools[name] = AgentTool(name, agent, purpose, caller)
    user_memory = memory_settings.resolve_for_users(config)
    if settings.memory_tools and user_memory is not None:
        for name in MEMORY_TOOL_NAMES:
            tools[name] = UserMemoryTool(name, user_memory)
    return tools


def _agents_by_tool_name(agents: Iterable[str]) -> dict[str, str]:
    """Return the agents by the names of their tools.

    An ambiguous name gets a hash of the agent's own name, so it stays the same whatever
    the order of agents.
    """
    agents_by_name: dict[str, str] = {}
    # Names that are already valid stay unchanged, whatever the order.
    for agent in sorted(
        agents, key=lambda agent: tool_names.to_safe_name(agent) != agent
    ):
        name = tool_names.to_safe_name(agent)
        if name in agents_by_name or name in MEMORY_TOOL_NAMES:
            digest = hashlib.sha256(agent.encode()).hexdigest()[:DIGEST_LENGTH]
            name = f"{name[: tool_names.MAX_LENGTH - DIGEST_LENGTH - 1]}_{digest}"
        agents_by_name[name] = agent
    names = {agent: name for name, agent in agents_by_name.items()}
    return {names[agent]: agent for agent in agents}


@dataclass(frozen=True, slots=True)
class AgentTool:
    """An agent or experiment as a tool."""

    name: str
    agent: str
    purpose: str | None
    caller: Caller

    @property
    def definition(self) -> Tool:
        return Tool(
            name=self.name,
            title=self.agent,
            description=self.purpose or f"Ask the agent '{self.agent}'.",
            input_schema=_json_schema(AskArguments),
            output_schema=_json_schema(AskResult),
            annotations=ToolAnnotations(read_only_hint=False, open_world_hint=True),
        )

    def embedding_tokens(self, arguments: Mapping[str, Any]) -> None:
        return None

    async def call(
        self, user_id: UserId, arguments: Mapping[str, Any], exchange: McpExchange
    ) -> CallToolResult:
        """Run a turn and return the reply."""
        parsed = parse_arguments(AskArguments, arguments)
        named = {} if parsed.thread_id is None else {"thread_id": parsed.thread_id}
        metadata = options.request_metadata(exchange.http, named)
        request = TurnRequest(
            agent=self.agent,
            user_id=user_id,
            messages=[Message("user", parsed.message)],
            options=options.read_options(metadata),
            parameters={},
            stream=exchange.wants_progress,
            caller=self.caller,
        )
        exchange.step = f"{self.agent} is working"
        reply = Reply()
        async with aclosing(flow.run(request)) as events:
            async for event in events:
                reply.add(event)
                if isinstance(event, HandoffStarted):
                    await exchange.report_step(f"{self.agent} calls {event.agent}")
        return _ask_result(request, metadata.get("thread_id"), reply)


def _ask_result(
    request: TurnRequest, thread_id: str | None, reply: Reply
) -> CallToolResult:
    text = reply.text or reply.refusal
    usage = serializers.serialize_usage(reply.usage or Usage())
    result = AskResult(
        reply=text,
        agent=request.agent,
        turn_id=str(request.turn_id),
        thread_id=thread_id,
        finish_reason=reply.finish_reason or "",
        usage=AskUsage(**usage),
    )
    return CallToolResult(
        content=[_text_content(text)], structured_content=result.model_dump()
    )


@dataclass(frozen=True, slots=True)
class UserMemoryTool:
    """One of an agent's memory tools, for the client's own model."""

    name: str
    user_memory: memory_settings.UserMemory

    @property
    def definition(self) -> Tool:
        tool = self._tool(PLACEHOLDER_USER)
        return Tool(
            name=self.name,
            description=tool.description,
            input_schema=dict(tool.parameters),
            annotations=ToolAnnotations(
                read_only_hint=self.name == "search_memory",
                destructive_hint=False,
                open_world_hint=False,
            ),
        )

    def embedding_tokens(self, arguments: Mapping[str, Any]) -> int:
        texts = (value for value in arguments.values() if isinstance(value, str))
        # The tools refuse longer texts.
        return sum(
            token_estimates.estimate_text(text[:MAX_TEXT_LENGTH]) for text in texts
        )

    async def call(
        self, user_id: UserId, arguments: Mapping[str, Any], exchange: McpExchange
    ) -> CallToolResult:
        """Search or save, and return the same JSON that an agent receives."""
        result = await self._tool(user_id).call(
            arguments, TracedToolCall(self.name, "memory", "")
        )
        text = result_text(result)
        return CallToolResult(
            content=[_text_content(text)], structured_content=orjson.loads(text)
        )

    def _tool(self, user_id: UserId) -> FunctionTool:
        tools = memory_tools.make_tools(user_id, "", self.user_memory, by=ACTOR)
        return next(tool for tool in tools if tool.name == self.name)


def error_result(message: str) -> CallToolResult:
    """Return a failed call's result for the client's model."""
    return CallToolResult(content=[_text_content(message)], is_error=True)


def _text_content(text: str) -> TextContent:
    return TextContent(type="text", text=text)


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()
