"""`/v1/mcp`: the MCP servers that a user is connected to."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from access.audit import audit_log
from access.audit.request_audit import build_event
from access.users.request_user import CallerQuery, identify_user
from api_base.json_responses import json_response
from config import live
from core.text.sanitization import escape_and_truncate
from mcp_bridge.oauth.errors import ServerUnknown
from turns.tools.mcp_sessions import TOKEN_MANAGER

router = Router(tags=["MCP"])


@router.get("", summary="List the MCP servers and whether the user is connected")
async def list_servers(request: HttpRequest, query: Query[CallerQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    connected = await TOKEN_MANAGER.connection_states(live.current(), user_id)
    data = [
        {"object": "mcp.server", "id": name, "connected": is_connected}
        for name, is_connected in connected.items()
    ]
    return json_response({"object": "list", "data": data})


@router.delete("/{server}", summary="Disconnect the user from an MCP server")
async def disconnect(
    request: HttpRequest, server: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    config = live.current()
    event = build_event(request, "mcp.disconnect", user_id, f"mcp server {server}")
    was_connected = await TOKEN_MANAGER.disconnect(
        config, server, user_id, audit=partial(audit_log.write, event)
    )
    if not was_connected and server not in await TOKEN_MANAGER.connection_states(
        config, user_id
    ):
        raise ServerUnknown(f"there is no MCP server '{escape_and_truncate(server)}'")
    return json_response(
        {"object": "mcp.server.deleted", "id": server, "deleted": was_connected}
    )
