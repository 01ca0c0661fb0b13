"""`/mcp`: this server as an MCP server, over streamable HTTP.

Requests share no state: several processes serve one port, and a client's next request
may reach another process. The SDK's low-level server handles messages; its own HTTP
transports are not used, since they keep a task group for each request and end every
stream as soon as the server begins to stop.
"""

import asyncio
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import orjson
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseNotFound,
)
from django.http.response import HttpResponseBase
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
)
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    JSONRPCRequest,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from access.errors import OriginRefused
from access.users import request_user
from access.users.caller import caller_of
from access.users.request_user import CallerQuery
from config import live
from config.config import SERVER, allowed_hosts
from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.errors import CoulisseError, Invalid
from core.network import cors, hosts
from core.text.sanitization import escape_and_truncate
from gateway import errors
from gateway.api import api
from gateway.auth import authentication
from gateway.config import MCP_SERVER
from gateway.errors import HOSTS_REMEDY
from gateway.mcp_server import server_tools
from gateway.mcp_server.exchange import (
    JsonRpcResponse,
    McpExchange,
    error_response,
    jsonrpc_error,
)
from gateway.request_validation import json_limits
from turns.budget import request_limits
from turns.budget.request_usage import UsageRequest

SESSION_HEADER = "Mcp-Session-Id"
"""The session id of a client with an older protocol, without any state. It only tells
apart which client's request to cancel."""

INSTRUCTIONS = (
    "Each tool with an agent's name sends that agent a message and returns its reply. "
    "Agents remember the user and the messages of a thread. search_memory and "
    "save_memory, if offered, use the memory of the same user."
)

NOT_JSON_RPC = "The body must be a single JSON-RPC request or notification"

Context = ServerRequestContext[dict[str, Any], Any]


_running_requests: dict[tuple[str, str | int], "asyncio.Task[JsonRpcResponse]"] = {}
"""The requests in progress, by session and id, if there is a session."""


async def serve_mcp(request: HttpRequest) -> HttpResponseBase:
    """Serve one request to `/mcp`."""
    try:
        config = live.current()
        if not config.get(MCP_SERVER).enabled:
            return HttpResponseNotFound()
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        check_origin(request, config)
        json_limits.check_content_type(request)
    except CoulisseError as exc:
        return errors.on_domain_error(request, exc)
    try:
        await authentication.authenticate(request)
    except CoulisseError as exc:
        errors.log_error(request.method, request.path, exc)
        return credential_error_response(exc)
    try:
        decoded = json_limits.parse_json(request.body)
    except orjson.JSONDecodeError as exc:
        return error_response(None, PARSE_ERROR, f"Parse error: {exc}", status=400)
    except Invalid as exc:
        return credential_error_response(exc)
    if isinstance(decoded, dict) and "id" in decoded and "method" in decoded:
        return await serve_request(request, decoded)
    return _acknowledge(request, decoded)


def credential_error_response(exc: CoulisseError) -> HttpResponse:
    """Return the response to a refused credential, with a message for MCP clients."""
    openai_response = errors.error_response(exc)
    response = error_response(
        None,
        INVALID_REQUEST,
        exc.message,
        data={"code": exc.code},
        status=openai_response.status_code,
    )
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in openai_response:
            response[name] = openai_response[name]
    return response


def check_origin(request: HttpRequest, config: Config) -> None:
    """Raise `OriginRefused` for a page of another origin, as the protocol requires."""
    origin = request.headers.get("Origin")
    if origin is None or cors.is_allowed(origin, config.get(SERVER).allowed_origins):
        return
    host = urlsplit(origin).netloc.encode("latin-1", "replace")
    if not host or not hosts.is_allowed(host, allowed_hosts(config)):
        raise OriginRefused(
            f"Pages from '{escape_and_truncate(origin)}' may not use this server",
            detail=HOSTS_REMEDY,
        )


def _acknowledge(request: HttpRequest, decoded: Any) -> HttpResponse:
    """Accept a message that needs no response: a notification or a stray response."""
    if not isinstance(decoded, dict) or not decoded.keys() & {
        "method",
        "result",
        "error",
    }:
        return error_response(None, INVALID_REQUEST, NOT_JSON_RPC, status=400)
    if decoded.get("method") == "notifications/cancelled":
        cancel_request(request.headers.get(SESSION_HEADER, ""), decoded.get("params"))
    return HttpResponse(status=202)


def cancel_request(session: str, params: Any) -> None:
    """Cancel a request of the same client, if this process handles it."""
    request_id = cancelled_request_id_from_params(
        params if isinstance(params, dict) else None
    )
    task = None if request_id is None else _running_requests.get((session, request_id))
    if task is not None:
        task.cancel()


async def serve_request(
    request: HttpRequest, decoded: dict[str, Any]
) -> HttpResponseBase:
    """Handle a JSON-RPC request."""
    try:
        message = JSONRPCRequest.model_validate(decoded)
    except ValidationError:
        return error_response(None, INVALID_REQUEST, NOT_JSON_RPC, status=400)
    connection = build_connection(request, decoded)
    if isinstance(connection, InboundLadderRejection):
        return error_response(
            message.id,
            connection.code,
            connection.message,
            data=connection.data,
            status=ERROR_CODE_HTTP_STATUS.get(connection.code, 200),
        )
    exchange = McpExchange(request, message)
    session = request.headers.get(SESSION_HEADER, "")
    response = await exchange.respond(
        handle(exchange, connection), partial(register_request, session, message.id)
    )
    if message.method == "initialize":
        response[SESSION_HEADER] = uuid4().hex
    return response


def build_connection(
    request: HttpRequest, decoded: dict[str, Any]
) -> Connection | InboundLadderRejection:
    """Return the request's connection for the SDK, or the error that refuses it.

    Only the header distinguishes the older generation of the protocol, which begins
    with a handshake, from the newer one, in which each request is self-contained.
    """
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
        return Connection.from_envelope(
            version or DEFAULT_NEGOTIATED_VERSION, None, None
        )
    # A repeated header has both values, so it never equals the value in the body.
    headers = {name.lower(): value for name, value in request.headers.items()}
    route = classify_inbound_request(decoded, headers=headers)
    if isinstance(route, InboundLadderRejection):
        return route
    return Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )


def register_request(
    session: str, id: str | int, task: "asyncio.Task[JsonRpcResponse]"
) -> None:
    """Make a request cancellable while it is in progress."""
    if not session:
        return
    key = (session, id)

    def unregister(ended: "asyncio.Task[JsonRpcResponse]") -> None:
        # Another request with the same id may have arrived meanwhile.
        if _running_requests.get(key) is ended:
            del _running_requests[key]

    _running_requests[key] = task
    task.add_done_callback(unregister)


async def handle(exchange: McpExchange, connection: Connection) -> JsonRpcResponse:
    """Run the SDK's server for a request, and return the result."""
    message = exchange.message
    try:
        result = await serve_one(
            server,
            exchange,
            message.method,
            message.params,
            connection=connection,
            lifespan_state={},
        )
    except Exception as exc:
        error = modern_error_data(exc)
        is_modern = connection.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS
        status = ERROR_CODE_HTTP_STATUS.get(error.code, 200) if is_modern else 200
        return jsonrpc_error(
            message.id, error.code, error.message, data=error.data, status=status
        )
    return JsonRpcResponse({"jsonrpc": "2.0", "id": message.id, "result": result})


async def _list_tools(
    context: Context, params: PaginatedRequestParams | None
) -> ListToolsResult:
    request = cast(McpExchange, context.request).http
    try:
        request_user.find_named_user(request, CallerQuery())
        caller = caller_of(request)
        tools = server_tools.list_tools(live.current(), caller)
    except CoulisseError as exc:
        errors.log_error("tools/list", request.path, exc)
        raise _protocol_error(exc) from exc
    return ListToolsResult(tools=[tool.definition for tool in tools.values()])


async def _call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    """Call a tool for the user of the request.

    Errors of the call go to the client's model, which may correct it; an unknown tool
    and a missing user are protocol errors of the client.
    """
    exchange = cast(McpExchange, context.request)
    try:
        config, caller = live.current(), caller_of(exchange.http)
        tools = server_tools.list_tools(config, caller)
        user_id = request_user.identify_user(exchange.http, CallerQuery())
    except CoulisseError as exc:
        errors.log_error("tools/call", params.name, exc)
        raise _protocol_error(exc) from exc
    tool = tools.get(params.name)
    if tool is None:
        hint = did_you_mean(params.name, tools)
        name = escape_and_truncate(params.name)
        raise MCPError(INVALID_PARAMS, f"Unknown tool: '{name}'{hint}")
    arguments = params.arguments or {}
    embedding_tokens = tool.embedding_tokens(arguments)
    try:
        if embedding_tokens is None:
            return await tool.call(user_id, arguments, exchange)
        usage = UsageRequest(config, caller, user_id, embedding_tokens)
        async with request_limits.admit(usage):
            return await tool.call(user_id, arguments, exchange)
    except CoulisseError as exc:
        errors.log_error("tools/call", params.name, exc)
        return server_tools.error_result(exc.message)


def _protocol_error(exc: CoulisseError) -> MCPError:
    """Return the JSON-RPC error of a request that calls no tool."""
    is_server_error = errors.error_shape(exc).status >= 500
    return MCPError(INTERNAL_ERROR if is_server_error else INVALID_PARAMS, exc.message)


server: Server[dict[str, Any]] = Server(
    "coulisse",
    title="Coulisse",
    version=api.version,
    instructions=INSTRUCTIONS,
    on_list_tools=_list_tools,
    on_call_tool=_call_tool,
)
server.middleware.clear()  # The SDK's spans are slow and add no information.
