"""Tools made of functions, and the arguments that models call them with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from api_base import validation_messages
from core.errors import Invalid
from core.tools import ToolResult
from core.trace import ToolKind, TracedToolCall


class ToolArguments(BaseModel):
    """The arguments of a tool; unknown names are refused."""

    model_config = ConfigDict(extra="forbid")


ArgumentsType = TypeVar("ArgumentsType", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool that calls a function; see `core.tools.Tool`."""

    kind: ToolKind
    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[[Mapping[str, Any], TracedToolCall], Awaitable[ToolResult]]
    target: str = ""

    async def call(
        self, arguments: Mapping[str, Any], record: TracedToolCall
    ) -> ToolResult:
        return await self.function(arguments, record)


def json_tool(
    kind: ToolKind,
    name: str,
    description: str,
    arguments_type: type[ArgumentsType],
    handler: Callable[[ArgumentsType], Awaitable[Any]],
    *,
    parameters: Mapping[str, Any] | None = None,
) -> FunctionTool:
    """Return a tool that answers with JSON.

    `parameters` is the JSON Schema for the model; by default that of `arguments_type`.
    """

    async def call(arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        result = await handler(parse_arguments(arguments_type, arguments))
        return orjson.dumps(result).decode()

    return FunctionTool(
        kind, name, description, parameters or _schema(arguments_type), call
    )


@cache
def _schema(arguments_type: type[ToolArguments]) -> Mapping[str, Any]:
    return arguments_type.model_json_schema()


def parse_arguments(
    arguments_type: type[ArgumentsType], arguments: Mapping[str, Any]
) -> ArgumentsType:
    """Return the arguments of a tool call; raises `Invalid`, listing each error."""
    try:
        return arguments_type.model_validate(arguments)
    except ValidationError as exc:
        raise Invalid(validation_messages.describe_errors(exc)) from exc
