"""What an agent can call while it thinks."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from core.trace import ToolKind, TracedToolCall

ToolResult = str | Sequence[dict[str, Any]]
"""What a tool answers: text, or OpenAI content parts (`text` and `image_url` with a
`data:` URL)."""


class Tool(Protocol):
    """Something an agent's model may call; it runs on the server."""

    @property
    def kind(self) -> ToolKind:
        """What sort of thing it is, for the record of the turn."""

    @property
    def name(self) -> str:
        """What the model calls it: letters, digits, `_` and `-`, at most 64."""

    @property
    def target(self) -> str:
        """The MCP server or the agent that is called; "" for what is neither."""

    @property
    def description(self) -> str:
        """When to call it and what comes back, for the model to read."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, an object."""

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        """Do it and return what the model is told.

        What it calls in its turn goes into `record.calls`; the caller completes the
        rest of it. Raises subclasses of `CoulisseError`, whose message the model is
        told.
        """


def to_openai_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as OpenAI's `tools` lists it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
