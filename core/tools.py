"""The interface of tools that agents call."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from core.trace import ToolKind, TracedToolCall

ToolResult = str | Sequence[dict[str, Any]]
"""A tool's result: text, or OpenAI content parts (`text` and `image_url` with a `data:`
URL)."""


class Tool(Protocol):
    """A tool that an agent's model may call; it runs on the server."""

    @property
    def kind(self) -> ToolKind:
        """The tool's kind, for the turn record."""

    @property
    def name(self) -> str:
        """The name for the model: letters, digits, `_` and `-`, at most 64."""

    @property
    def target(self) -> str:
        """The called MCP server or agent; "" for other tools."""

    @property
    def description(self) -> str:
        """The purpose and result of the tool, for the model."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, an object."""

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        """Run the tool and return the result for the model.

        The tool adds its own calls to `record.calls`; the caller completes the rest of
        the record. Raises subclasses of `CoulisseError`; the model receives their
        message.
        """


def to_openai_tool(tool: Tool) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
