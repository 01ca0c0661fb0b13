"""Django's ASGI handler, reduced for clients' requests.

Django sends two signals and closes the response through a thread, on every request;
each thread switch costs as much as a whole query (docs/performance.md). Clients'
requests need neither: the database executor manages its own connections. Credentials
are checked before the body is read (`gateway.asgi.admission`), body sizes are checked
while they arrive, every response under `/v1` has OpenAI's shape, and every request has
an id.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestAborted,
    SuspiciousOperation,
)
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.handlers.exception import convert_exception_to_response
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase

from config import live
from config.config import SERVER, ServerConfig, allowed_hosts
from config.errors import ConfigInvalid
from core.errors import CoulisseError
from core.network import cors, hosts
from core.runtime import request_ids
from core.text.sanitization import escape_and_truncate
from gateway import errors
from gateway.anthropic import error_shape
from gateway.asgi import admission, endpoint_kinds, request_entry
from gateway.asgi.admission import NO_BODY, BodyLimit
from gateway.asgi.event_stream import EventStream
from gateway.asgi.request_entry import RequestEntry
from gateway.asgi.slow_clients import SlowClientGuard
from gateway.auth import authentication
from gateway.errors import HOSTS_REMEDY, BodyTooLarge, HostRefused, ServerStopping
from gateway.request_validation import text_encoding
from telemetry.metrics import recording
from telemetry.request_log.writer import REFUSAL_KEY
from telemetry.tracing.spans import accept as accept_trace

Scope = dict[str, Any]
Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


BODY_MESSAGE = "http.response.body"
REQUEST_ID_HEADER = b"x-request-id"
"""OpenAI's header, which its clients expose as `_request_id`."""
TRACE_HEADER = b"traceparent"
"""The W3C's header with the span of a client that traces its requests."""
COMMON_HEADERS = (
    # Responses belong to one user; browsers must not guess their type.
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every response that does not set them itself."""

UNAVAILABLE = 503
RETRY_AFTER = (b"retry-after", b"2")
"""Of each 503 whose error does not know a time: another process may answer at once."""

PREFLIGHT_HEADER = b"access-control-request-method"

CLIENT_LEFT = 499
"""The status, in metrics, of requests whose client left before the response."""

CLIENT_ERRORS = (
    BadRequest,
    Http404,
    MultiPartParserError,
    PermissionDenied,
    SuspiciousOperation,
)
"""Exceptions that Django turns into a response of 400, 403 or 404."""

DISCARD_SECONDS = 10.0
"""How long the server discards a refused body that a client continues to send."""

logger = logging.getLogger(__name__)


class GatewayHandler(ASGIHandler):
    """Serves HTTP requests of clients."""

    request_class = text_encoding.Utf8Request

    def __init__(self) -> None:
        super().__init__()
        self._responses: set[asyncio.Task[None]] = set()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load no middleware: only the studio needs sessions and the like."""
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = convert_exception_to_response(self._call_view)

    async def _call_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response of a view; errors that Django would hide are logged."""
        view: Any = self._get_response_async  # type: ignore[attr-defined]  # Django's
        try:
            response: HttpResponseBase = await view(request)
        except CLIENT_ERRORS:
            raise
        except Exception as exc:
            return errors.on_internal_error(request, exc)
        return response

    async def drain(self) -> None:
        """Wait until all responses have ended; called when the server stops.

        The server cancels responses that take too long, but does not wait until their
        turns have stored their state.
        """
        while self._responses:
            await asyncio.wait(self._responses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        request_id = request_ids.assign_request_id(headers.get(REQUEST_ID_HEADER))
        entry = request_entry.begin(scope)
        if entry is not None:
            receive, send = entry.watch(receive, send)
        if (traceparent := headers.get(TRACE_HEADER)) is not None:
            accept_trace(
                live.current_or_none(), traceparent, headers.get(b"tracestate", b"")
            )
        origin = headers.get(b"origin")
        cors_headers = [] if origin is None else find_cors_headers(scope, origin)
        sender = ResponseSender(send, request_id, cors_headers)
        try:
            with admission.body_buffer(scope) as body:
                await self._serve(scope, headers, body, receive, sender, entry)
        finally:
            if entry is not None:
                entry.finish()
            if recording.active is not None:
                # A request that did not arrive whole is refused by the protocol.
                status = scope.get(REFUSAL_KEY, {}).get("status", sender.status)
                endpoint = endpoint_kinds.find_kind(scope["path"])
                recording.active.request_ended(endpoint, status)

    async def _serve(
        self,
        scope: Scope,
        headers: Headers,
        body: IO[bytes],
        receive: Receive,
        sender: "ResponseSender",
        entry: RequestEntry | None,
    ) -> None:
        request, _ = self.create_request(scope, body)
        if entry is not None:
            entry.request = request
        if request is None:
            await self._refuse(
                errors.bad_url_response(), UnreadBody(headers, receive, sender.send)
            )
            return
        try:
            check_host(headers)
            if sender.cors_headers and is_preflight(scope, headers):
                await self.send_response(preflight_response(headers), sender.send)
                return
            text_encoding.check_encoding(scope, headers)
            limit = await self.admit(request) if has_body(headers) else NO_BODY
            await _read_body(headers, receive, limit, body)
        except RequestAborted:
            return
        except Exception as exc:
            # Django, which handles errors, has not received the request yet.
            refusal = error_shape.reshape(request, admission.refuse(request, exc))
            await self._refuse(refusal, UnreadBody(headers, receive, sender.send))
            return
        try:
            await self._respond_while_connected(request, receive, sender)
        except asyncio.CancelledError:
            # The server is stopping.
            if not sender.has_started:
                response = error_shape.reshape(
                    request, errors.error_response(ServerStopping())
                )
                await self.send_response(response, sender.send)
            else:
                await sender.end_stream(ServerStopping())

    async def admit(self, request: ASGIRequest) -> BodyLimit:
        """Return the body size limit; raises an error for a refused request."""
        return await admission.admit(request)

    async def _refuse(self, response: HttpResponseBase, unread: "UnreadBody") -> None:
        await self.send_response(unread.with_close(response), unread.send)

    async def _respond_while_connected(
        self, request: ASGIRequest, receive: Receive, sender: "ResponseSender"
    ) -> None:
        """Respond to the request; cancel if the client leaves or the server stops.

        In both cases, wait until the turn has stored its messages.
        """
        response = asyncio.create_task(self._respond(request, sender))
        self._responses.add(response)
        response.add_done_callback(self._responses.discard)
        disconnect = asyncio.ensure_future(receive())
        try:
            await asyncio.wait(
                (response, disconnect), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            disconnect.cancel()
            response.cancel()  # Cancelling a complete response has no effect.
            await asyncio.wait((response,))
        if response.cancelled():
            return
        error = response.exception()
        if error is not None and disconnect.done() and not disconnect.cancelled():
            logger.debug("the client disconnected: %s", error)
        elif error is not None:
            raise error

    async def _respond(self, request: ASGIRequest, sender: "ResponseSender") -> None:
        response = await self.run_get_response(request)
        if isinstance(response, EventStream):
            sender.stream = response
        guard = SlowClientGuard(sender.send, asyncio.current_task())
        try:
            await self.send_response(response, guard.send)
        finally:
            guard.close()

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return Django's response; errors have OpenAI's shape."""
        response = errors.as_openai_error(
            request, await self.get_response_async(request)
        )
        response = await authentication.finish_response(request, response)
        return error_shape.reshape(request, response)


class ResponseSender:
    """Sends a response, with the headers that every response has."""

    def __init__(self, send: Send, request_id: str, cors_headers: cors.Headers) -> None:
        self._send = send
        self.cors_headers = cors_headers
        """For the page that sent the request; empty for other clients."""
        self._request_id = request_id.encode()
        self.stream: EventStream | None = None
        """The response, if it is a stream of events."""
        self.has_started = False
        self.status = CLIENT_LEFT
        self._has_ended = False

    async def send(self, message: Mapping[str, Any]) -> None:
        if not self.has_started:
            self.has_started = True
            self.status = message["status"]
            self._add_headers(message["headers"])
        self._has_ended = message["type"] == BODY_MESSAGE and not message.get(
            "more_body"
        )
        await self._send(message)

    async def end_stream(self, error: CoulisseError) -> None:
        """End an open stream with the frames of an error, if it has any."""
        encode = None if self.stream is None else self.stream.encode_shutdown
        if encode is not None and not self._has_ended:
            await self.send({"type": BODY_MESSAGE, "body": encode(error)})

    def _add_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        values = {name.lower(): value for name, value in headers}
        headers += [header for header in COMMON_HEADERS if header[0] not in values]
        headers.append((REQUEST_ID_HEADER, self._request_id))
        if self.status == UNAVAILABLE and RETRY_AFTER[0] not in values:
            headers.append(RETRY_AFTER)
        if self.cors_headers:
            headers += [*self.cors_headers, *cors.exposed_headers(headers)]


def check_host(headers: Headers) -> None:
    """Raise `HostRefused` unless the Host header names this server."""
    host = headers.get(b"host", b"")
    if not hosts.is_allowed(host, _allowed_hosts()):
        raise HostRefused(
            "This server does not accept the host name "
            f"'{escape_and_truncate(host.decode('latin1'))}'",
            detail=HOSTS_REMEDY,
        )


def find_cors_headers(scope: Scope, origin: bytes) -> cors.Headers:
    """Return the headers for a page that may call this address, if it may."""
    path = scope["path"]
    if not path.startswith("/v1/") and path != admission.MCP_PATH:
        return []
    return cors.origin_headers(origin, _server_config().allowed_origins)


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Return whether a browser asks if a page may send a request."""
    return scope["method"] == "OPTIONS" and PREFLIGHT_HEADER in headers


def preflight_response(headers: Headers) -> HttpResponse:
    """Return the permission for a page's request."""
    response = HttpResponse(status=204)
    requested = headers.get(b"access-control-request-headers", b"")
    for name, value in cors.preflight_headers(requested):
        response[name.decode()] = value.decode()
    return response


def has_body(headers: Headers) -> bool:
    length = headers.get(b"content-length", b"0")
    return length != b"0" or b"transfer-encoding" in headers


async def _read_body(
    headers: Headers, receive: Receive, limit: BodyLimit, body: IO[bytes]
) -> None:
    """Write the whole body to `body`; raises `BodyTooLarge` as early as possible."""
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit.max_bytes:
        raise _too_large(limit)
    size = 0
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit.max_bytes:
            raise _too_large(limit)
        body.write(chunk)
        has_more = message.get("more_body", False)
    body.seek(0)


def _too_large(limit: BodyLimit) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body is larger than the maximum of {limit.max_bytes} bytes; send less",
        detail=limit.remedy,
    )


class UnreadBody:
    """Sends the response to a request whose body was not read completely."""

    def __init__(self, headers: Headers, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._has_body = has_body(headers)
        # A client that sent `Expect: 100-continue` will not send the body.
        self._is_body_expected = self._has_body and b"expect" not in headers

    def with_close(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response; it closes the connection if a body may follow."""
        if self._has_body:
            response["Connection"] = "close"
        return response

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send, then discard what still arrives before the connection is closed.

        With unread bytes the system would reset the connection, and the client might
        lose the response.
        """
        if (
            not self._is_body_expected
            or message["type"] != BODY_MESSAGE
            or message.get("more_body")
        ):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while (await self._receive()).get("more_body"):
                    pass
        await self._send({"type": BODY_MESSAGE, "body": b""})


def _allowed_hosts() -> tuple[str, ...]:
    try:
        return allowed_hosts(live.current())
    except ConfigInvalid:
        return ()


def _server_config() -> ServerConfig:
    try:
        return live.current().get(SERVER)
    except ConfigInvalid:
        return ServerConfig()  # The view reports the error.
