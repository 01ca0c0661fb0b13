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
from io import BytesIO
from typing import Any

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from config import live
from config.config import SERVER, ServerConfig
from config.errors import ConfigInvalid
from core.runtime import request_ids
from core.text.sanitization import escape_and_truncate
from gateway import errors
from gateway.asgi import admission
from gateway.asgi.admission import NO_BODY, BodyLimit
from gateway.asgi.slow_clients import SlowClientGuard
from gateway.auth import authentication
from gateway.errors import HOSTS_REMEDY, BodyTooLarge, HostRefused, ServerStopping
from gateway.openai import sse
from gateway.request_validation import hosts, text_encoding

Scope = dict[str, Any]
Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


BODY_MESSAGE = "http.response.body"
REQUEST_ID_HEADER = b"x-request-id"
"""OpenAI's header, which its clients expose as `_request_id`."""
COMMON_HEADERS = (
    # Responses belong to one user; browsers must not guess their type.
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every response that does not set them itself."""

DISCARD_SECONDS = 10.0
"""How long the server discards a refused body that a client continues to send."""

logger = logging.getLogger(__name__)


class GatewayHandler(ASGIHandler):
    """Serves HTTP requests of clients."""

    request_class = text_encoding.Utf8Request
    chat_prefix = "/v1/"
    """Event streams below this path consist of OpenAI's frames."""

    def __init__(self) -> None:
        super().__init__()
        self._responses: set[asyncio.Task[None]] = set()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load no middleware: only the studio needs sessions and the like."""
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        view: Any = self._get_response_async  # type: ignore[attr-defined]  # Django's
        self._middleware_chain = convert_exception_to_response(view)

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
        is_chat = scope["path"].startswith(self.chat_prefix)
        sender = ResponseSender(send, request_id, is_chat=is_chat)
        body = BytesIO()
        request, _ = self.create_request(scope, body)
        if request is None:
            await self._refuse(
                errors.bad_url_response(), UnreadBody(headers, receive, sender.send)
            )
            return
        try:
            check_host(headers)
            text_encoding.check_encoding(scope, headers)
            limit = await self.admit(request) if has_body(headers) else NO_BODY
            body.write(await _read_body(headers, receive, limit))
            body.seek(0)
        except RequestAborted:
            return
        except Exception as exc:
            # Django, which handles errors, has not received the request yet.
            refusal = admission.refuse(request, exc)
            await self._refuse(refusal, UnreadBody(headers, receive, sender.send))
            return
        try:
            await self._respond_while_connected(request, receive, sender.send)
        except asyncio.CancelledError:
            # The server is stopping.
            if not sender.has_started:
                response = errors.error_response(ServerStopping())
                await self.send_response(response, sender.send)
            elif sender.is_open_chat:
                last_frames = sse.error_frame(ServerStopping()) + sse.DONE
                await sender.send({"type": BODY_MESSAGE, "body": last_frames})

    async def admit(self, request: ASGIRequest) -> BodyLimit:
        """Return the body size limit; raises an error for a refused request."""
        return await admission.admit(request)

    async def _refuse(self, response: HttpResponseBase, unread: "UnreadBody") -> None:
        await self.send_response(unread.with_close(response), unread.send)

    async def _respond_while_connected(
        self, request: ASGIRequest, receive: Receive, send: Send
    ) -> None:
        """Respond to the request; cancel if the client leaves or the server stops.

        In both cases, wait until the turn has stored its messages.
        """
        response = asyncio.create_task(self._respond(request, send))
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

    async def _respond(self, request: ASGIRequest, send: Send) -> None:
        response = await self.run_get_response(request)
        guard = SlowClientGuard(send, asyncio.current_task())
        try:
            await self.send_response(response, guard.send)
        finally:
            guard.close()

    def handle_uncaught_exception(
        self, request: HttpRequest, resolver: Any, exc_info: Any
    ) -> HttpResponse:
        """Return the response for an internal error."""
        return errors.on_internal_error(request, exc_info[1])

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return Django's response; errors have OpenAI's shape."""
        response = errors.as_openai_error(
            request, await self.get_response_async(request)
        )
        return await authentication.finish_response(request, response)


class ResponseSender:
    """Sends a response, with the headers that every response has."""

    def __init__(self, send: Send, request_id: str, *, is_chat: bool) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self._is_chat = is_chat
        self._content_type = b""
        self.has_started = False
        self._has_ended = False

    @property
    def is_open_chat(self) -> bool:
        """Whether it is a stream of OpenAI's frames that has not ended."""
        is_stream = self._content_type == b"text/event-stream"
        return self._is_chat and is_stream and not self._has_ended

    async def send(self, message: Mapping[str, Any]) -> None:
        if not self.has_started:
            self.has_started = True
            self._add_headers(message["headers"])
        self._has_ended = message["type"] == BODY_MESSAGE and not message.get(
            "more_body"
        )
        await self._send(message)

    def _add_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        values = {name.lower(): value for name, value in headers}
        self._content_type = values.get(b"content-type", b"")
        headers += [header for header in COMMON_HEADERS if header[0] not in values]
        headers.append((REQUEST_ID_HEADER, self._request_id))


def check_host(headers: Headers) -> None:
    """Raise `HostRefused` unless the Host header names this server."""
    host = headers.get(b"host", b"")
    if not hosts.is_allowed(host, _server_config().allowed_hosts):
        raise HostRefused(
            "This server does not accept the host name "
            f"'{escape_and_truncate(host.decode('latin1'))}'",
            detail=HOSTS_REMEDY,
        )


def has_body(headers: Headers) -> bool:
    """Return whether a body follows the headers."""
    length = headers.get(b"content-length", b"0")
    return length != b"0" or b"transfer-encoding" in headers


async def _read_body(headers: Headers, receive: Receive, limit: BodyLimit) -> bytes:
    """Return the whole body; raises `BodyTooLarge` as early as possible."""
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit.max_bytes:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit.max_bytes:
            raise _too_large(limit)
        has_more = message.get("more_body", False)
    return b"".join(chunks)


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


def _server_config() -> ServerConfig:
    try:
        return live.current().get(SERVER)
    except ConfigInvalid:
        return ServerConfig()  # The view reports the error.
