"""The status of MCP servers in this process: their tools and failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from config.sections import Config
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerFailed
from mcp_bridge.tools.catalog import CatalogTool

TIMEOUT_SECONDS = 15.0
"""The limit of an explicit query; a server may need a download before it starts."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server in this process."""

    state: Literal["open", "idle", "failed"]
    """`idle`: not used recently, or only used through users' sign-ins."""
    sessions: int
    tools: Sequence[CatalogTool]
    error: str | None = None
    last_lines: Sequence[str] = ()
    """The last lines of a failed or exited server, without secrets."""


async def cached_statuses(
    config: Config, *, pool: SessionPool
) -> dict[str, ServerStatus]:
    """Return the known status of every server, without a request."""
    return {name: _cached_status(name, pool) for name in config.get(MCP)}


def _cached_status(name: str, pool: SessionPool) -> ServerStatus:
    sessions, error = pool.open_sessions(name)
    if sessions:
        return ServerStatus(
            "open", len(sessions), max((s.catalog_tools for s in sessions), key=len)
        )
    if error is not None:
        return _failed_status(error)
    return ServerStatus("idle", 0, ())


async def query_status(config: Config, name: str, *, pool: SessionPool) -> ServerStatus:
    """Query a server's tools; servers with sign-in are queried only for their users.

    A server that failed a moment ago is retried.
    """
    server = config.get(MCP)[name]
    if server.sign_in is None:
        target = ServerTarget(name, server, config.path.absolute().parent)
        pool.clear_failure(target)
        try:
            async with pool.session(target, wait_seconds=TIMEOUT_SECONDS) as session:
                await session.tools()
        except ServerFailed as exc:
            return _failed_status(exc)
    return _cached_status(name, pool)


def _failed_status(error: ServerFailed) -> ServerStatus:
    return ServerStatus("failed", 0, (), str(error), error.last_lines)


def as_json(status: ServerStatus) -> dict[str, Any]:
    """Return the status as JSON data."""
    return {
        "state": status.state,
        "sessions": status.sessions,
        "error": status.error,
        "last_lines": list(status.last_lines),
        "tools": [
            {
                "name": catalog_tool.name,
                "description": catalog_tool.description,
                "parameters": catalog_tool.parameters,
                "is_read_only": catalog_tool.is_read_only,
            }
            for catalog_tool in status.tools
        ],
    }
