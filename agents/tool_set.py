"""The tools of one turn, and the models that refuse any."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agents.config import AgentConfig
from core import token_estimates
from core.errors import CoulisseError
from core.messages import ToolCall
from core.tools import Tool, to_openai_tool
from providers.errors import ContentFiltered, ModelUnknown, RequestRefused

REFUSAL_SECONDS = 600
"""How long a model that refused tools is called without those it may do without."""
MAX_REFUSALS = 1_000
REFUSAL = re.compile(r"\btools?\b|function.?call", re.IGNORECASE)
"""What providers say: "does not support tools", "Tool calling is not supported"."""
UNSUPPORTED = re.compile(r"support|unavailable|not (available|allowed|enabled)", re.I)
"""Without such a word it is about the tool messages that a client sent."""

_refused_at: dict[str, float] = {}
"""When each model refused tools, on the monotonic clock."""


@dataclass(frozen=True)
class ToolSet:
    """The tools that a model may call in one turn, and who executes them."""

    own: Mapping[str, Tool]
    client_names: frozenset[str]
    tools: Sequence[dict[str, Any]]
    parameters: Mapping[str, Any]

    @cached_property
    def tool_tokens(self) -> int:
        """The estimated tokens of the tool definitions, per call of the model."""
        return token_estimates.estimate_json(self.tools)

    def own_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls that are executed here, including calls of unknown tools."""
        return [call for call in calls if call.name not in self.client_names]

    def parameters_for_round(self, *, is_last: bool) -> Mapping[str, Any]:
        """Return the parameters of a round; the last round forbids tool calls."""
        if is_last and self.tools:
            return {**self.parameters, "tool_choice": "none"}
        return self.parameters

    def is_optional_for(self, agent: AgentConfig) -> bool:
        """Return whether all are tools that every agent has, unless its YAML differs.

        A model without tools still answers for such an agent.
        """
        return (
            agent.task_tools is None
            and bool(self.own)
            and not self.client_names
            and all(tool.kind == "task" for tool in self.own.values())
        )


def build_tool_set(
    client_tools: Sequence[dict[str, Any]],
    own_tools: Sequence[Tool],
    parameters: Mapping[str, Any],
) -> ToolSet:
    """Select the client's tools and the agent's own tools that the model may call.

    The request's `tool_choice` refers to the client's tools. If it requires a call, the
    agent's tools are left out. If it is `none`, only the agent's tools stay.
    """
    choice = parameters.get("tool_choice")
    if choice == "none" and own_tools:
        client_tools = ()
        parameters = {
            name: parameters[name] for name in parameters if name != "tool_choice"
        }
    elif choice not in (None, "auto", "none"):
        own_tools = ()
    return ToolSet(
        own={tool.name: tool for tool in own_tools},
        client_names=frozenset(tool["function"]["name"] for tool in client_tools),
        tools=[*client_tools, *map(to_openai_tool, own_tools)],
        parameters=parameters,
    )


def refuses_tools(model: str) -> bool:
    """Return whether a model has refused tools lately."""
    at = _refused_at.get(model)
    return at is not None and time.monotonic() - at < REFUSAL_SECONDS


def note_refusal(model: str, error: Exception) -> bool:
    """Remember that a model refuses tools, if this error says so; return whether."""
    if not isinstance(error, RequestRefused | ModelUnknown) or isinstance(
        error, ContentFiltered
    ):
        return False
    described = _described(error)
    if not (REFUSAL.search(described) and UNSUPPORTED.search(described)):
        return False
    if len(_refused_at) >= MAX_REFUSALS:
        _refused_at.clear()
    _refused_at[model] = time.monotonic()
    return True


def _described(error: CoulisseError) -> str:
    return f"{error.message} {error.detail} {getattr(error, 'param', None) or ''}"
