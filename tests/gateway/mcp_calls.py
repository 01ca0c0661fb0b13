"""MCP requests to the server: with the official client, or as raw HTTP."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from access.users.request_user import USER_HEADER

T = TypeVar("T")

PATH = "/mcp"

BOTH = ("auto", "legacy")
"""The newer generation of the protocol, which the SDK prefers, and the
older one with a handshake."""


@contextlib.asynccontextmanager
async def connected(
    server: str, user: str | None, *, mode: str = "auto", query: str = "", **more: str
) -> AsyncIterator[Client]:
    """Connect the official client for a user, named by the header.

    Names of more headers are written with `_`.
    """
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if user is not None:
        headers[USER_HEADER] = user
    # Loading certificates, which are not needed, costs more than the test.
    async with (
        httpx2.AsyncClient(headers=headers, verify=False, timeout=60) as http,
        Client(
            streamable_http_client(server + PATH + query, http_client=http), mode=mode
        ) as client,
    ):
        yield client


def text(result: Any) -> str:
    """Return the response to a call."""
    (part,) = result.content
    return part.text


def rpc(method: str, params: Any = None, *, id: Any = 1) -> dict[str, Any]:
    """Return the body of a request."""
    body = {"jsonrpc": "2.0", "id": id, "method": method}
    return body if params is None else {**body, "params": params}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the body of a tool call."""
    return rpc("tools/call", {"name": name, "arguments": arguments})


def post(server: str, body: Any, user: str | None = None, **headers: str) -> Any:
    """Post a body as raw HTTP; header names have `_` for `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if user is not None:
        given[USER_HEADER] = user
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    if isinstance(body, bytes):
        given.setdefault("Content-Type", "application/json")
    return httpx2.post(
        server + PATH, headers=given, timeout=60, verify=False, **content
    )


def with_client(
    server: str,
    user: str | None,
    do: Callable[[Client], Awaitable[T]],
    *,
    mode: str = "auto",
    query: str = "",
) -> T:
    """Connect, call a function with the client, and disconnect."""

    async def visit() -> T | MCPError:
        async with connected(server, user, mode=mode, query=query) as client:
            try:
                return await do(client)
            except MCPError as exc:
                return exc  # Raised in here it would come out in a group.

    answer = asyncio.run(visit())
    if isinstance(answer, MCPError):
        raise answer
    return answer


def ask(
    server: str,
    user: str | None,
    message: str,
    *,
    agent: str = "assistant",
    mode: str = "auto",
    **arguments: Any,
) -> Any:
    """Call an agent; return the result of the call."""
    given = {"message": message, **arguments}
    return with_client(
        server, user, lambda client: client.call_tool(agent, given), mode=mode
    )


@contextlib.contextmanager
def calling(server: str, body: dict[str, Any], user: str) -> Iterator[socket.socket]:
    """Post a body over a bare socket, and disconnect at the end."""
    address = urlsplit(server)
    assert address.hostname
    assert address.port
    content = json.dumps(body).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{USER_HEADER}: {user}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), 10) as caller:
        caller.sendall(head.encode() + content)
        yield caller
