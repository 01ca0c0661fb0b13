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
    """The tools of a server as this process knows them."""

    object: Literal["mcp.tools"] = "mcp.tools"
    server: str
    signs_in: bool
    state: Literal["open", "idle", "failed"]
    sessions: int
    error: str | None
    last_lines: list[str] = Field(
        description="What it printed before it failed to start, or ended, without "
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
    """A connection that was removed."""

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
        operation_id="mcp_look",
        summary="Look at an MCP server",
        request=None,
        responses=McpToolList,
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Request a server's tools now; those of a user are requested on use."""
        server = _find_server(name)
        looking = server_status.query_status(live.current(), name, pool=POOL)
        told = _serialize_tools(name, server, event_loop_bridge.run_external(looking))
        count = len(told["tools"])
        said = f"'{name}' offers {count} {'tool' if count == 1 else 'tools'}"
        failed = told["error"] is not None
        if failed:
            said = f"'{name}' was not reached"
        return self.confirm_change(
            told, message=said, redirect_to=f"{MCP_URL}/{name}", is_bad=failed
        )


class McpConnectionListView(StudioView):
    """`/admin/mcp/{name}/connections`."""

    template = "studio/configuration/mcp_connections.html"

    @extend_schema(
        summary="List who is connected to an MCP server",
        parameters=[OpenApiParameter("after", str, description="The page's last_id.")],
        responses=McpConnectionList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List the users who have signed in to a server, newest first."""
        _find_server(name)
        self.title = "Who is connected"
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
        deed = AuditEvent(
            "mcp.disconnect", self.actor(), f"mcp server {name}", {"user": str(user)}
        )
        ending = TOKEN_MANAGER.disconnect(
            live.current(), name, UserId(user), audit=lambda: audit_log.write(deed)
        )
        if not event_loop_bridge.run_external(ending):
            raise NotConnected
        told = {"object": "mcp.connection.deleted", "server": name, "deleted": True}
        return self.confirm_change(
            told,
            message="Disconnected the user",
            redirect_to=f"{MCP_URL}/{name}/connections",
        )


def page_context(name: str) -> dict[str, Any]:
    """Return the state of a server for its own page.

    For `configuration/_mcp_status.html`. Empty if the server is not in force yet.
    """
    if name not in live.current().get(MCP):
        return {"mcp": None}
    told = _load_tools(name)
    users = (
        list_connections(name, limit=CONNECTIONS_SHOWN) if told["signs_in"] else None
    )
    return {"mcp": told, "connections": users}


def server_states() -> dict[str, str]:
    """Return the state of each server: `open`, `idle` or `failed`."""
    return {name: look.state for name, look in _load_statuses().items()}


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
    told = [{key: row[key] for key in row if key != "id"} for row in rows]
    return serialize_page(told, has_more=has_more, last=last)


def _find_server(name: str) -> ToolServerConfig:
    """Return a server that is in force; raises `ServerUnknown`."""
    known = live.current().get(MCP)
    return get_by_name(name, known, noun="MCP server", unknown=ServerUnknown)


def _load_statuses() -> dict[str, ServerStatus]:
    return event_loop_bridge.run_on_loop(
        server_status.cached_statuses(live.current(), pool=POOL)
    )


def _serialize_tools(
    name: str, server: ToolServerConfig, look: ServerStatus
) -> dict[str, Any]:
    about = {"object": "mcp.tools", "server": name}
    return {
        **about,
        "signs_in": server.sign_in is not None,
        **server_status.as_json(look),
    }
