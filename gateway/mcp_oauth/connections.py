"""`/v1/mcp`: which MCP servers a user is connected to."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from access.audit import audit_log
from access.audit.request_audit import deed
from access.users.request_user import IN_OPENAPI, CallerQuery, identify
from api_base.json_responses import json_response
from config import live
from core.text.sanitization import shortened
from mcp_bridge.oauth.errors import ServerUnknown
from turns.tools.mcp_sessions import SIGN_INS

router = Router(tags=["MCP"])


@router.get(
    "",
    summary="List the MCP servers and whether the user is connected",
    openapi_extra=IN_OPENAPI,
)
async def list_servers(request: HttpRequest, asked: Query[CallerQuery]) -> HttpResponse:
    user_id = identify(request, asked)
    connected = await SIGN_INS.connection_states(live.current(), user_id)
    data = [
        {"object": "mcp.server", "id": name, "connected": is_connected}
        for name, is_connected in connected.items()
    ]
    return json_response({"object": "list", "data": data})


@router.delete(
    "/{server}",
    summary="Disconnect the user from an MCP server",
    openapi_extra=IN_OPENAPI,
)
async def disconnect(
    request: HttpRequest, server: str, asked: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify(request, asked)
    config = live.current()
    done = deed(request, "mcp.disconnect", user_id, f"mcp server {server}")
    was_connected = await SIGN_INS.disconnect(
        config, server, user_id, note=partial(audit_log.write, done)
    )
    if not was_connected and server not in await SIGN_INS.connection_states(config, user_id):
        raise ServerUnknown(f"there is no MCP server '{shortened(server)}'")
    return json_response(
        {"object": "mcp.server.deleted", "id": server, "deleted": was_connected}
    )
