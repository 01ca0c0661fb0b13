"""The status of MCP servers in this process: their tools and failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from config.sections import Config
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import MCP, ToolServerConfig
from mcp_bridge.errors import ServerFailed
from mcp_bridge.tools.catalog import CatalogTool

TIMEOUT_SECONDS = 15.0
"""The limit of an explicit query; a server may need a download before it starts."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server in this process."""

    server: str
    requires_sign_in: bool
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
    servers = config.get(MCP)
    return {name: _cached_status(name, servers[name], pool) for name in servers}


def _cached_status(
    name: str, server: ToolServerConfig, pool: SessionPool
) -> ServerStatus:
    sessions, error = pool.open_sessions(name)
    if error is not None:
        return _failed_status(name, server, error)
    tools = max((session.catalog_tools for session in sessions), key=len, default=())
    has_sign_in = server.sign_in is not None
    state: Literal["open", "idle"] = "open" if sessions else "idle"
    return ServerStatus(name, has_sign_in, state, len(sessions), tools)


async def query_status(config: Config, name: str, *, pool: SessionPool) -> ServerStatus:
    """Query a server's tools; servers with sign-in are queried only for their users.

    A server that failed a moment ago is retried.
    """
    server = config.get(MCP)[name]
    if server.sign_in is None:
        target = ServerTarget.shared(config, name)
        pool.clear_failure(target)
        try:
            async with pool.session(target, wait_seconds=TIMEOUT_SECONDS) as session:
                await session.tools()
        except ServerFailed as exc:
            return _failed_status(name, server, exc)
    return _cached_status(name, server, pool)


def _failed_status(
    name: str, server: ToolServerConfig, error: ServerFailed
) -> ServerStatus:
    has_sign_in, text = server.sign_in is not None, str(error)
    return ServerStatus(name, has_sign_in, "failed", 0, (), text, error.last_lines)
