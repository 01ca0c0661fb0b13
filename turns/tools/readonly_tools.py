"""The tools of a shadow run: read-only tools, and stubs in place of all others.

A shadow run answers the user's messages a second time, for comparison. Side effects
must not happen twice.
"""

from collections.abc import Mapping
from typing import Any

from agents.function_tools import FunctionTool
from core.tools import Tool
from core.trace import TracedToolCall
from mcp_bridge.toolset import ServerTool

READ_ONLY_MEMORY_TOOLS = frozenset({"search_memory"})
"""The memory tools that change nothing."""
UNAVAILABLE = (
    "Not available in a shadow run: this tool may change something, so it was not "
    "called. Answer without it, and do not claim that it was done."
)


def make_read_only(tool: Tool) -> Tool:
    """Return the tool, or a stub if it may change something."""
    if _is_read_only(tool):
        return tool
    return FunctionTool(
        tool.kind, tool.name, tool.description, tool.parameters, _refuse, tool.target
    )


def _is_read_only(tool: Tool) -> bool:
    match tool.kind:
        case "skill":
            return True
        case "subagent":
            return True  # A subagent receives read-only tools itself.
        case "memory":
            return tool.name in READ_ONLY_MEMORY_TOOLS
        case "mcp":
            return isinstance(tool, ServerTool) and tool.is_read_only
    return False


async def _refuse(arguments: Mapping[str, Any], record: TracedToolCall) -> str:
    return UNAVAILABLE
