"""The tools of a trial: those that change nothing; others say that they are not there.

A trial answers what a user said a second time, for comparison. What it does must not
happen twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.tools import Tool, ToolResult
from core.trace import ToolKind, TracedToolCall
from mcp_bridge.toolset import ServerTool

READ_ONLY_MEMORY_TOOLS = frozenset({"search_memory"})
"""The memory tools that change nothing."""
UNAVAILABLE = (
    "Not available in a trial: this tool may change something, so it was not called. "
    "Answer without it, and do not say that it was done."
)


def make_read_only(tool: Tool) -> Tool:
    """Return the tool, or what stands for it where it may change something."""
    if _is_read_only(tool):
        return tool
    return WithheldTool(
        tool.kind, tool.name, tool.target, tool.description, tool.parameters
    )


def _is_read_only(tool: Tool) -> bool:
    match tool.kind:
        case "skill":
            return True
        case "subagent":
            return True  # It is given a trial's tools itself.
        case "memory":
            return tool.name in READ_ONLY_MEMORY_TOOLS
        case "mcp":
            return isinstance(tool, ServerTool) and tool.is_read_only
    return False


@dataclass(frozen=True, slots=True)
class WithheldTool:
    """Stands for a tool that may change something, and looks like it."""

    kind: ToolKind
    name: str
    target: str
    description: str
    parameters: Mapping[str, Any]

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        """Say that it was not called."""
        return UNAVAILABLE
