"""What an agent can call while it thinks."""

from collections.abc import Mapping
from typing import Any, Protocol


class Tool(Protocol):
    """Something an agent's model may call; it runs on the server."""

    @property
    def name(self) -> str:
        """What the model calls it: letters, digits, `_` and `-`, at most 64."""

    @property
    def description(self) -> str:
        """When to call it and what comes back, for the model to read."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, an object."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Do it and return what the model is told.

        Raises subclasses of `CoulisseError`, whose message the model is told.
        """


def definition(tool: Tool) -> dict[str, Any]:
    """Return a tool as OpenAI's `tools` lists it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
