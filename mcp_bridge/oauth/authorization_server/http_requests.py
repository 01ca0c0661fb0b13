"""Requests to authorization servers, limited in time, size and destination."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import orjson

from core.network.loopback import is_loopback
from mcp_bridge.client.http_client import ssl_context
from mcp_bridge.oauth.errors import (
    AuthServerReplyInvalid,
    AuthServerTimedOut,
    AuthServerUnreachable,
)

SECONDS = 10.0
MAX_BYTES = 1024 * 1024
MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class OAuthResponse:
    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any] | None:
        """Return the JSON object in the body, or None if there is none."""
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None
        return content if isinstance(content, dict) else None


class OAuthHttpClient:
    """Makes requests; `server` names the MCP server they are for in errors."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    async def get(self, server: str, url: str) -> OAuthResponse:
        """Read a document; follow a few redirects that stay on https."""
        for _ in range(MAX_REDIRECTS):
            headers = {"Accept": "application/json"}
            response = await self._send(server, "GET", url, headers=headers)
            target = response.headers.get("Location", "")
            if response.status not in (301, 302, 303, 307, 308) or not target:
                return response
            target = urljoin(url, target)
            if urlsplit(target).scheme != urlsplit(url).scheme:
                raise AuthServerReplyInvalid(
                    server, f"{url} redirects to another scheme, which is not allowed"
                )
            check_secret_url(server, target, near=url)
            url = target
        raise AuthServerReplyInvalid(server, f"{url} redirects too often")

    async def post(
        self,
        server: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> OAuthResponse:
        """Post a form or JSON. Follows no redirects: the body may hold secrets."""
        content = {"data": form} if json is None else {"json": json}
        given = {"Accept": "application/json", **(headers or {})}
        return await self._send(server, "POST", url, headers=given, **content)

    async def probe(self, server: str, url: str, *, method: str) -> OAuthResponse:
        """Send an MCP server a request without a token; read only the response head."""
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else None
        return await self._send(
            server, method, url, headers=headers, content=body, is_head=True
        )

    async def _send(
        self,
        server: str,
        method: str,
        url: str,
        *,
        is_head: bool = False,
        **content: Any,
    ) -> OAuthResponse:
        try:
            async with (
                asyncio.timeout(self._seconds),
                _client(url) as client,
                client.stream(method, url, **content) as response,
            ):
                body = b"" if is_head else await self._read(server, response)
                return OAuthResponse(url, response.status_code, response.headers, body)
        except TimeoutError as exc:
            raise AuthServerTimedOut(
                server,
                f"{_without_query(url)} did not answer within "
                f"{self._seconds:g} seconds",
            ) from exc
        # ValueError: an address or a header that cannot be written.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            raise AuthServerUnreachable(
                server,
                f"{_without_query(url)} cannot be reached ({type(exc).__name__})",
            ) from exc

    async def _read(self, server: str, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise AuthServerReplyInvalid(
                    server,
                    f"{_without_query(str(response.url))} answered with more than "
                    f"{MAX_BYTES} bytes",
                )
        return bytes(body)


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", "User-Agent": "coulisse"},
        timeout=None,  # The caller limits the whole request.
        # Requests to this machine must not go through a proxy.
        trust_env=not is_loopback(httpx2.URL(url).host),
        verify=ssl_context(),
    )


def _without_query(url: str) -> str:
    """Return a URL without its query, which may hold secrets."""
    return url.partition("?")[0]


def check_secret_url(server: str, url: str, *, near: str) -> None:
    """Raise `AuthServerReplyInvalid` unless a secret may go there.

    Allowed are https, and plain http on this machine if the MCP server is also on it: a
    remote server must not reach local services.
    """
    is_safe = False
    try:
        parts = urlsplit(url)
        if "@" not in parts.netloc and parts.hostname:
            is_near = is_loopback(parts.hostname) and is_loopback(
                urlsplit(near).hostname or ""
            )
            is_public = parts.scheme == "https" and not is_loopback(parts.hostname)
            is_safe = is_public or (is_near and parts.scheme in ("http", "https"))
    except ValueError:
        pass
    if not is_safe:
        raise AuthServerReplyInvalid(
            server,
            f"its sign-in uses {_without_query(url)!r}, which must be https, or on "
            "this machine if the server is",
        )
