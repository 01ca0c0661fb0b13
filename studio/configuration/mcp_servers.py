"""The current state of MCP servers: their tools and connected users."""

from typing import Any, Literal
from uuid import UUID

from django.contrib import admin
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from config import live
from core.errors import NotFound
from mcp_bridge import server_status
from mcp_bridge.config import MCP
from mcp_bridge.models import McpToken
from mcp_bridge.server_status import ServerStatus
from studio.base.views import StudioView
from studio.configuration.tables import McpDisconnected, find_server
from studio.server import event_loop_bridge
from turns.tools.mcp_sessions import POOL

MCP_URL = "/admin/mcp"
CONNECTIONS_SHOWN = 20
"""Users on a server's own page."""


class NotConnected(NotFound):
    """This user is not connected to this MCP server."""

    code = "not_connected"


class McpTool(BaseModel, from_attributes=True):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]
    is_read_only: bool


class McpToolList(BaseModel, from_attributes=True):
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
        find_server(name)
        query = server_status.query_status(live.current(), name, pool=POOL)
        data = McpToolList.model_validate(event_loop_bridge.run_external(query))
        count = len(data.tools)
        message = f"MCP server '{name}' has {count} {'tool' if count == 1 else 'tools'}"
        has_failed = data.error is not None
        if has_failed:
            message = f"MCP server '{name}' is unreachable"
        return self.confirm_change(
            data, message=message, redirect_to=f"{MCP_URL}/{name}", is_bad=has_failed
        )


class McpConnectionView(StudioView):
    """`/admin/mcp/{name}/connections/{user}`."""

    change_permission = "mcp_bridge.change_mcptoken"

    @extend_schema(
        summary="Disconnect a user from an MCP server", responses={200: McpDisconnected}
    )
    def delete(self, request: Request, name: str, user: UUID) -> HttpResponseBase:
        """End a user's connection, also at the provider if it supports revocation."""
        table: Any = admin.site._registry[McpToken]
        rows = table.get_queryset(request._request)
        row = rows.filter(server=name, user_id=user).first()
        if row is None:
            raise NotConnected
        action = table.row_actions()["disconnect"]
        outcome = action.run_recorded(table, request._request, row)
        return self.confirm_change(
            outcome.data,
            message=outcome.message,
            redirect_to=f"{MCP_URL}/{name}/connections",
        )


def page_context(name: str) -> dict[str, Any]:
    """Return the context of `configuration/_mcp_status.html`.

    Empty if the server is not in effect yet.
    """
    if name not in live.current().get(MCP):
        return {"mcp": None}
    tools, connected = _load_tools(name), None
    if tools.requires_sign_in:
        found = McpToken.objects.filter(server=name).with_state()
        connected = found.order_by("-created_at", "-id")[:CONNECTIONS_SHOWN]
    return {"mcp": tools, "connections": connected}


def server_states() -> dict[str, str]:
    """Return the state of each server: `open`, `idle` or `failed`."""
    return {name: status.state for name, status in _load_statuses().items()}


def _load_tools(name: str) -> McpToolList:
    """Return the known tools of a server; raises `ServerUnknown`."""
    find_server(name)
    return McpToolList.model_validate(_load_statuses()[name])


def _load_statuses() -> dict[str, ServerStatus]:
    return event_loop_bridge.run_on_loop(
        server_status.cached_statuses(live.current(), pool=POOL)
    )
