"""The current state of MCP servers: their tools and connected users."""

from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.validation.named_lists import get_by_name
from core.errors import NotFound
from core.ids import UserId
from mcp_bridge import server_status
from mcp_bridge.config import MCP, ToolServerConfig
from mcp_bridge.oauth import token_store
from mcp_bridge.oauth.errors import ServerUnknown
from mcp_bridge.server_status import ServerStatus
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from studio.server import event_loop_bridge
from turns.tools.mcp_sessions import POOL, TOKEN_MANAGER

MCP_URL = "/admin/mcp"
CONNECTIONS_SHOWN = 20
"""Users on a server's own page."""


class NotConnected(NotFound):
    """This user is not connected to this MCP server."""

    code = "not_connected"


class McpTool(BaseModel):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]
    is_read_only: bool


class McpToolList(BaseModel):
    """The tools of a server, as known to this process."""

    object: Literal["mcp.tools"] = "mcp.tools"
    server: str
    requires_sign_in: bool
    state: Literal["open", "idle", "failed"]
    sessions: int
    error: str | None
    last_lines: list[str] = Field(
        description="Its last output before it ended or failed to start, without "
        "secrets."
    )
    tools: list[McpTool]


class McpConnection(BaseModel):
    """A user's connection to a server, without its tokens."""

    user_id: UUID
    resource: str
    scopes: str
    is_refreshable: bool
    is_expired: bool
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class McpConnectionList(BaseModel):
    """A page of connections, newest first."""

    object: Literal["list"] = "list"
    data: list[McpConnection]
    has_more: bool
    last_id: str | None


class McpDisconnected(BaseModel):
    """A removed connection."""

    object: Literal["mcp.connection.deleted"]
    server: str
    deleted: Literal[True]


class McpToolsView(StudioView):
    """`/admin/mcp/{name}/tools`."""

    @extend_schema(summary="List the tools of an MCP server", responses=McpToolList)
    def get(self, request: Request, name: str) -> Response:
        """Return the known tools of a server, without a request to it."""
        return self.respond(_load_tools(name))

    @extend_schema(
        operation_id="mcp_check",
        summary="Query the tools of an MCP server",
        request=None,
        responses=McpToolList,
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Query a server's tools; servers with sign-in return what is known."""
        server = _find_server(name)
        query = server_status.query_status(live.current(), name, pool=POOL)
        data = _serialize_tools(name, server, event_loop_bridge.run_external(query))
        count = len(data["tools"])
        message = f"MCP server '{name}' has {count} {'tool' if count == 1 else 'tools'}"
        has_failed = data["error"] is not None
        if has_failed:
            message = f"MCP server '{name}' is unreachable"
        return self.confirm_change(
            data, message=message, redirect_to=f"{MCP_URL}/{name}", is_bad=has_failed
        )


class McpConnectionListView(StudioView):
    """`/admin/mcp/{name}/connections`."""

    template = "studio/configuration/mcp_connections.html"

    @extend_schema(
        summary="List the users connected to an MCP server",
        parameters=[OpenApiParameter("after", str, description="The page's last_id.")],
        responses=McpConnectionList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List the users who have signed in to a server, newest first."""
        _find_server(name)
        self.title = "Connected users"
        self.breadcrumbs = [("MCP", MCP_URL), (name, f"{MCP_URL}/{name}")]
        after = parse_cursor(request.query_params.get("after"), int)
        return self.respond(
            list_connections(name, after=after), page=lambda: {"name": name}
        )


class McpConnectionView(StudioView):
    """`/admin/mcp/{name}/connections/{user}`."""

    @extend_schema(
        summary="Disconnect a user from an MCP server", responses={200: McpDisconnected}
    )
    def delete(self, request: Request, name: str, user: UUID) -> HttpResponseBase:
        """End a user's connection, also at the provider if it supports revocation."""
        event = AuditEvent(
            "mcp.disconnect", self.actor(), f"mcp server {name}", {"user": str(user)}
        )
        disconnection = TOKEN_MANAGER.disconnect(
            live.current(), name, UserId(user), audit=lambda: audit_log.write(event)
        )
        if not event_loop_bridge.run_external(disconnection):
            raise NotConnected
        data = {"object": "mcp.connection.deleted", "server": name, "deleted": True}
        return self.confirm_change(
            data,
            message="User disconnected",
            redirect_to=f"{MCP_URL}/{name}/connections",
        )


def page_context(name: str) -> dict[str, Any]:
    """Return the context of `configuration/_mcp_status.html`.

    Empty if the server is not in effect yet.
    """
    if name not in live.current().get(MCP):
        return {"mcp": None}
    tools, connected = _load_tools(name), None
    if tools["requires_sign_in"]:
        connected = list_connections(name, limit=CONNECTIONS_SHOWN)
    return {"mcp": tools, "connections": connected}


def server_states() -> dict[str, str]:
    """Return the state of each server: `open`, `idle` or `failed`."""
    return {name: status.state for name, status in _load_statuses().items()}


def _load_tools(name: str) -> dict[str, Any]:
    """Return the known tools of a server; raises `ServerUnknown`."""
    return _serialize_tools(name, _find_server(name), _load_statuses()[name])


def list_connections(
    name: str, *, after: token_store.Cursor | None = None, limit: int = 50
) -> dict[str, Any]:
    """Return a page of a server's connections."""
    rows, has_more = token_store.page_connections(
        name, now=datetime.now(UTC), after=after, limit=limit
    )
    last = (rows[-1]["created_at"], rows[-1]["id"]) if rows else None
    data = [{key: row[key] for key in row if key != "id"} for row in rows]
    return serialize_page(data, has_more=has_more, last=last)


def _find_server(name: str) -> ToolServerConfig:
    """Return a configured server; raises `ServerUnknown`."""
    servers = live.current().get(MCP)
    return get_by_name(name, servers, noun="MCP server", unknown=ServerUnknown)


def _load_statuses() -> dict[str, ServerStatus]:
    return event_loop_bridge.run_on_loop(
        server_status.cached_statuses(live.current(), pool=POOL)
    )


def _serialize_tools(
    name: str, server: ToolServerConfig, status: ServerStatus
) -> dict[str, Any]:
    return {
        "object": "mcp.tools",
        "server": name,
        "requires_sign_in": server.sign_in is not None,
        **server_status.as_json(status),
    }
