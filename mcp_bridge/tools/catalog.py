"""Read a server's tools, and select those that models can use."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import jsonschema_rs
import mcp_types
from mcp.client import ClientSession
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from core.validation import schema_limits
from core.validation.schema_limits import SchemaTooLarge

logger = logging.getLogger(__name__)

MAX_PAGES = 100
MAX_TOOLS = 1000
MAX_NAME_LOGGED = 80
MAX_DESCRIPTION_LENGTH = 8000


@dataclass(frozen=True, slots=True)
class CatalogTool:
    name: str
    """The server's name of the tool."""
    description: str
    parameters: Mapping[str, Any]
    is_read_only: bool = False
    """Whether the server declares the tool as read-only."""


async def list_tools(
    session: ClientSession, warn: Callable[[str], None]
) -> tuple[CatalogTool, ...]:
    """Return a server's usable tools, sorted by name.

    Reads all pages, up to a limit. `warn` receives each tool that is ignored.
    """
    tools_by_name: dict[str, CatalogTool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        for tool in page.tools:
            if len(tools_by_name) >= MAX_TOOLS:
                warn(f"it has more than {MAX_TOOLS} tools; the rest are ignored")
                return _sort_tools(tools_by_name)
            if (problem := _find_problem(tool, tools_by_name)) is not None:
                warn(f"tool '{printable_name(tool.name)}' is ignored: {problem}")
            else:
                tools_by_name[tool.name] = _parse_tool(tool)
        cursor, previous = page.next_cursor, cursor
        if cursor is None or cursor == previous:
            break
    else:
        warn(f"it has more than {MAX_PAGES} pages of tools; the rest are ignored")
    return _sort_tools(tools_by_name)


def _sort_tools(tools_by_name: Mapping[str, CatalogTool]) -> tuple[CatalogTool, ...]:
    return tuple(tools_by_name[name] for name in sorted(tools_by_name))


def printable_name(name: str) -> str:
    """Return a tool's name for the log: short, on one line."""
    return "".join(c if c.isprintable() else "?" for c in name[:MAX_NAME_LOGGED])


def _parse_tool(tool: mcp_types.Tool) -> CatalogTool:
    description = tool.description or tool.title or ""
    parameters = {"type": "object", "properties": {}} | tool.input_schema
    hints = tool.annotations
    return CatalogTool(
        tool.name,
        description[:MAX_DESCRIPTION_LENGTH],
        parameters,
        is_read_only=hints is not None and hints.read_only_hint is True,
    )


def _find_problem(
    tool: mcp_types.Tool, tools_by_name: Mapping[str, CatalogTool]
) -> str | None:
    """Return why a tool cannot be used, or None."""
    if not tool.name:
        return "it has no name"
    if tool.name in tools_by_name:
        return "another tool has the same name"
    return find_schema_problem(tool.input_schema)


def find_schema_problem(schema: dict[str, Any]) -> str | None:
    """Return why the schema of a tool's arguments cannot be used, or None."""
    if schema.get("type", "object") != "object":
        return "its arguments are not an object"
    try:
        schema_limits.check_schema(schema)
    except SchemaTooLarge as exc:
        return f"its schema {exc}"
    # The URL in `$schema` is not fetched.
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        is_valid = jsonschema_rs.meta.is_valid(plain)
    except ValueError:
        is_valid = False
    return None if is_valid else "its schema is not valid JSON Schema"


@asynccontextmanager
async def drop_invalid_tools(
    transport: AbstractAsyncContextManager[TransportStreams],
    warn: Callable[[str], None],
) -> AsyncIterator[TransportStreams]:
    """Drop invalid tools from lists; the SDK would refuse the whole list."""
    async with transport as (incoming, outgoing):
        yield _FilteredStream(incoming, warn), outgoing


class _FilteredStream:
    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        warn: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._warn = warn

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._filter(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._filter(await self._stream.__anext__())

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)

    def _filter(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            message = item.message
            if isinstance(message, mcp_types.JSONRPCResponse):
                tools = message.result.get("tools")
                if isinstance(tools, list):
                    message.result["tools"] = [
                        t for t in tools if self._is_valid_tool(t)
                    ]
        return item

    def _is_valid_tool(self, tool: Any) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        try:
            mcp_types.Tool.model_validate(tool, by_name=False)
            if tool["inputSchema"].setdefault("type", "object") == "object":
                return True
            problem = "its arguments are not an object"
        except ValueError:
            problem = "its description or schema is malformed"
        label = printable_name(name) if isinstance(name, str) else "without a name"
        self._warn(f"tool '{label}' is ignored: {problem}")
        return False
