"""The ways to talk to a server: a child's pipes, streamable HTTP, and the older SSE."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import assert_never

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import McpHttpClientFactory

from mcp_bridge.client import http_client, stdio
from mcp_bridge.client.stdio import OnEnd
from mcp_bridge.client.target import ServerTarget

# The two private modules are imported for the names of types alone, which the SDK
# exports nowhere else.


def open_transport(
    target: ServerTarget, bearer: http_client.BearerAuth, on_lost: OnEnd
) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the transport to a server; `on_lost` receives its sudden end."""
    if target.server.kind == "stdio":
        return stdio.connect(target, on_lost)
    client = http_client.McpHttpClient(target, bearer, on_lost)
    url = target.server.url or ""
    if target.server.kind == "http":
        return _open_http(client, url)
    if target.server.kind == "sse":
        return sse_client(url, httpx_client_factory=_client_factory(client))
    assert_never(target.server.kind)


@asynccontextmanager
async def _open_http(
    client: http_client.McpHttpClient, url: str
) -> AsyncIterator[TransportStreams]:
    """Use streamable HTTP through a client, and close it at the end."""
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=http_client.MAX_RESPONSE_BYTES
        ) as streams,
    ):
        yield streams


def _client_factory(client: http_client.McpHttpClient) -> McpHttpClientFactory:
    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return client

    return factory
