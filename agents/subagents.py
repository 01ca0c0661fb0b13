"""Agents as tools of other agents.

Each call is a conversation of its own: the called agent receives its preamble and the
message, and nothing of the caller's conversation. Source: "Subagents" of the reference.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from agents import loop
from agents.config import AgentConfig
from agents.errors import SubagentFailed
from agents.fallback_chain import FallbackChain, Model
from core.messages import Message
from core.reply import Reply
from core.tools import Tool
from core.trace import TracedToolCall
from core.validation import tool_names

MAX_DEPTH = 4
"""How many levels of subagents a turn may have below the client's agent."""

MAX_MESSAGE_LENGTH = 200_000

PARAMETERS = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "The task, with all the context the agent needs: it does "
            "not see this conversation.",
        }
    },
    "required": ["message"],
    "additionalProperties": False,
}

OpenTools = Callable[[AgentConfig], Awaitable[Sequence[Tool]]]


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """The agent that answers a call."""

    agent: AgentConfig
    models: Sequence[Model]
    """The models that can answer for it, its own first."""


AgentResolver = Callable[[], Awaitable[ResolvedAgent]]


@dataclass(frozen=True, slots=True)
class Subagent:
    """An agent, or an experiment over several, that another agent may call."""

    target: str
    """Its name in the YAML."""
    purpose: str | None
    resolve: AgentResolver
    """Returns the agent that answers this call."""
    open_tools: OpenTools
    """Returns the tools that it may use, for the turn's user."""
    depth: int
    """1 for the agents that the client's agent calls."""
    user: str = ""
    """An opaque id of the end user, for the provider."""
    kind: Literal["subagent"] = "subagent"

    @property
    def name(self) -> str:
        return tool_names.to_safe_name(self.target)

    @property
    def description(self) -> str:
        return self.purpose or f"Invoke the '{self.target}' subagent."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return PARAMETERS

    async def call(self, arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        """Return the agent's final text for the message.

        Raises `SubagentFailed` for calls deeper than `MAX_DEPTH`, for invalid arguments
        and for an empty answer. Errors of its provider pass through.
        """
        if self.depth > MAX_DEPTH:
            raise SubagentFailed(
                f"subagents can be nested at most {MAX_DEPTH} levels deep: "
                f"'{self.target}' was not called; answer without it"
            )
        message = _parse_message(arguments)
        resolved = await self.resolve()
        agent = resolved.agent
        record.target = agent.name
        run = loop.AgentRun(
            agent,
            FallbackChain(resolved.models),
            build_prompt(agent, message),
            {},
            own_tools=await self.open_tools(agent),
            final_text_only=True,
            is_live=False,
            user=self.user,
            record=record.calls,
        )
        reply = Reply()
        async with aclosing(loop.run(run)) as events:
            async for event in events:
                reply.add(event)
        return self._final_text(reply)

    def _final_text(self, reply: Reply) -> str:
        text = reply.text or reply.refusal
        if not text:
            raise SubagentFailed(f"agent '{self.target}' returned no text")
        if reply.finish_reason == "length":
            return f"{text}\n(truncated: the agent reached its token limit)"
        return text


def build_prompt(agent: AgentConfig, message: str) -> list[Message]:
    """Return the complete prompt of the called agent."""
    preamble = agent.preamble.strip()
    system = [Message("system", preamble)] if preamble else []
    return [*system, Message("user", message)]


def _parse_message(arguments: Mapping[str, Any]) -> str:
    """Return the message to the agent; raises `SubagentFailed`."""
    message = arguments.get("message")
    if arguments.keys() != {"message"} or not isinstance(message, str):
        raise SubagentFailed("expected exactly one argument, 'message', a string")
    if not message.strip():
        raise SubagentFailed("'message' is empty: describe the task")
    if len(message) > MAX_MESSAGE_LENGTH:
        raise SubagentFailed(
            f"'message' has {len(message)} characters; the maximum is "
            f"{MAX_MESSAGE_LENGTH}"
        )
    return message
