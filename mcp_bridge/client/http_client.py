"""The HTTP client of a session: user token, failure handling, limits.

The SDK ends a whole session when one request fails. This client converts a failed
request to an error response, so the session continues.
"""

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson

from core.errors import CoulisseError
from core.runtime import trace_context
from mcp_bridge.client.target import RenewToken, ServerTarget

CONNECT_SECONDS = 10.0
EXTRA_READ_SECONDS = 5.0
"""The connection's extra wait beyond a call's timeout, which expires first."""
CLOSE_SECONDS = 2.0

MAX_RESPONSE_BYTES = 16 * 1024 * 1024

LONG_LIVED_METHOD = "subscriptions/listen"


@dataclass(slots=True)
class HttpOutcome:
    """The outcome of the HTTP requests of one call."""

    status: int | None = None
    """The status of the last error response."""
    reason: str = ""
    """The failure below HTTP, in words safe for any reader."""
    was_sent: bool = True
    """False when no connection could be opened."""
    is_too_large: bool = False


http_outcome: ContextVar[HttpOutcome | None] = ContextVar("exchange", default=None)
"""The outcome for the current call; the SDK propagates it to where it sends."""


class ResponseTooLarge(httpx2.StreamError):
    """A response is over the size limit."""

    def __init__(self) -> None:
        super().__init__("the response is too large")


class ResponseBroken(httpx2.StreamError):
    """A response ended early."""


class ResponseCompressed(httpx2.TransportError):
    """A response is compressed although the request did not allow it."""


class TokenNotRenewed(httpx2.TransportError):
    """The token could not be renewed for now."""


class BearerAuth(httpx2.Auth):
    """Adds the user's token to each request; renews a refused token."""

    def __init__(self, token: str | None, renew: RenewToken | None) -> None:
        self._token = token
        self._renew = renew
        self._previous_token: str | None = None
        self.is_refused = False
        """Whether the server refuses every available token."""

    def replace_token(self, token: str | None, renew: RenewToken | None) -> None:
        """Switch to another token, but never back to the one just replaced.

        A running turn still supplies the token it started with.
        """
        self._renew = renew
        if token not in (None, self._token, self._previous_token):
            self._token = token
            self.is_refused = False

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token, and once more with a renewed one."""
        token = self._token
        _set_token(token, request)
        response = yield request
        if response.status_code != 401 or token is None or self._renew is None:
            return
        if token == self._token:
            if self.is_refused:
                return
            try:
                renewed = await self._renew(token)
            except CoulisseError as exc:
                raise TokenNotRenewed(str(exc)) from exc
            if renewed is None or renewed == token:
                self.is_refused = True
                return
            self._token, self._previous_token = renewed, token
        _set_token(self._token, request)
        response = yield request
        self.is_refused = response.status_code == 401


def _set_token(token: str | None, request: httpx2.Request) -> None:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"


class McpHttpClient(httpx2.AsyncClient):
    """Sends the requests of one session; failures never raise."""

    def __init__(
        self, target: ServerTarget, bearer: BearerAuth, on_lost: Callable[[str], None]
    ) -> None:
        """`on_lost` receives what ends the session of an `sse` server."""
        self._is_sse = target.server.kind == "sse"
        self._on_lost = on_lost
        configured = target.server.headers.items()
        super().__init__(
            auth=bearer,
            headers={
                "User-Agent": "coulisse",
                **{name: value.get_secret_value() for name, value in configured},
                # Decompression after the size check could yield any size.
                "Accept-Encoding": "identity",
            },
            event_hooks={"response": [self._limit_response]},
            timeout=httpx2.Timeout(
                CONNECT_SECONDS, read=target.server.timeout_seconds + EXTRA_READ_SECONDS
            ),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            verify=ssl_context(),
        )

    async def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
        """Send a request; a failure becomes a response with status 502."""
        _remove_read_timeout(request)
        request.headers.update(trace_context.headers())
        try:
            if request.method == "DELETE":
                async with asyncio.timeout(CLOSE_SECONDS):
                    response = await super().send(request, **kwargs)
            else:
                response = await super().send(request, **kwargs)
        # A refusal is read completely before the request is repeated.
        except (
            httpx2.TransportError,
            TimeoutError,
            ResponseTooLarge,
            ResponseBroken,
        ) as exc:
            self._record_failure(request, exc)
            return _error_response(request)
        self._record_status(response)
        return response

    def _record_failure(self, request: httpx2.Request, exc: Exception) -> None:
        reason = _describe_error(exc)
        if (outcome := http_outcome.get()) is not None:
            outcome.reason = reason
            outcome.was_sent = not isinstance(
                exc, httpx2.ConnectError | httpx2.ConnectTimeout
            )
        if self._is_sse:
            self._on_lost(reason)

    def _record_status(self, response: httpx2.Response) -> None:
        outcome = http_outcome.get()
        if outcome is not None:
            status = response.status_code
            outcome.status = status if status >= 300 else None
        if self._is_sse and response.status_code >= 400:
            self._on_lost(f"answered with status {response.status_code}")

    async def _limit_response(self, response: httpx2.Response) -> None:
        """Limit each response, also those that only `BearerAuth` sees."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ResponseCompressed("the response is compressed")
        request, is_refusal = response.request, response.status_code >= 400
        is_endless = _is_long_lived(request) and not is_refusal
        is_sse_stream = self._is_sse and request.method == "GET" and not is_refusal
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _LimitedStream(
                response.stream,
                limit=None if is_endless else MAX_RESPONSE_BYTES,
                outcome=http_outcome.get(),
                on_end=self._on_lost if is_sse_stream else None,
            )


class _LimitedStream(httpx2.AsyncByteStream):
    """A response body with a size limit, whose errors end only one call."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        *,
        limit: int | None,
        outcome: HttpOutcome | None,
        on_end: Callable[[str], None] | None,
    ) -> None:
        self._stream = stream
        self._limit = limit
        self._outcome = outcome
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self._stream:
                size += len(piece)
                if self._limit is not None and size > self._limit:
                    if self._outcome is not None:
                        self._outcome.is_too_large = True
                    raise ResponseTooLarge
                yield piece
        except httpx2.TransportError as exc:
            if self._outcome is not None:
                self._outcome.reason = _describe_error(exc)
            self._report_end(_describe_error(exc))
            raise ResponseBroken(_describe_error(exc)) from exc
        self._report_end("closed the connection")

    def _report_end(self, reason: str) -> None:
        if self._on_end is not None:
            self._on_end(reason)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_long_lived(request: httpx2.Request) -> bool:
    return (
        request.method == "GET"
        or request.headers.get("mcp-method") == LONG_LIVED_METHOD
    )


def _remove_read_timeout(request: httpx2.Request) -> None:
    """Remove the read timeout of endless streams, which may be silent."""
    if _is_long_lived(request):
        timeouts = dict(request.extensions.get("timeout", {}))
        request.extensions["timeout"] = timeouts | {"read": None}


def _error_response(request: httpx2.Request) -> httpx2.Response:
    error = {"code": -32000, "message": "the request failed"}
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    headers = {"content-type": "application/json"}
    return httpx2.Response(502, headers=headers, content=body, request=request)


def _describe_error(exc: Exception) -> str:
    match exc:
        case TokenNotRenewed():
            return "refused the user's token, which could not be renewed"
        case ResponseCompressed():
            return "sent a compressed response, which is not supported"
        case httpx2.ConnectTimeout():
            return "did not accept the connection in time"
        case httpx2.ConnectError():
            return "cannot be reached"
        case httpx2.TimeoutException() | TimeoutError():
            return "did not answer in time"
        case httpx2.UnsupportedProtocol():
            return "has an invalid address"
        case _:
            return "broke the connection"


# Reading them costs more than everything else about a session.
@functools.cache
def ssl_context() -> ssl.SSLContext:
    """Return the certificates of the system, read once."""
    return httpx2.create_ssl_context()
