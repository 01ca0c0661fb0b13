"""Django's ASGI handler, made light for clients' requests.

Django sends two signals and closes the response through a thread, on every request;
each hop costs as much as a whole query (docs/performance.md). Clients' requests need
neither: the database lane minds its own connections. Bodies are measured while they
arrive, every answer under `/v1` is OpenAI's shape, and every request has a name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
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
from core import request_ids
from core.errors import CoulisseError
from gateway import authentication, errors, hosts, sse
from gateway.errors import BodyTooLarge, HostRefused, Stopping
from gateway.patience import Patience

Scope = dict[str, Any]
Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


BODY = "http.response.body"
REQUEST_ID = b"x-request-id"
"""OpenAI's header, which its clients show as `_request_id`."""
ALWAYS = (
    # What is answered is of one user, and is no more than it says it is.
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every answer that does not say otherwise itself."""

logger = logging.getLogger(__name__)


class Handler(ASGIHandler):
    """Answers HTTP requests."""

    chats = "/v1/"
    """Streams of events below this path are OpenAI's frames."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: set[asyncio.Task[None]] = set()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load none: sessions and what goes with them are the studio's."""
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        view: Any = self._get_response_async  # type: ignore[attr-defined]  # Django's
        self._middleware_chain = convert_exception_to_response(view)

    async def drain(self) -> None:
        """Wait until no answer is open; called when the server stops.

        The server breaks off what takes too long, but does not wait for what a turn
        then still has to put away.
        """
        while self._answers:
            await asyncio.wait(self._answers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        request_id = request_ids.begin(headers.get(REQUEST_ID))
        is_chat = scope["path"].startswith(self.chats)
        outgoing = Outgoing(send, request_id, is_chat=is_chat)
        try:
            check_host(headers)
            body = await _read_body(headers, receive)
        except RequestAborted:
            return
        except CoulisseError as exc:
            refusal = errors.response(exc)
            if b"expect" in headers:
                # The client has not sent the body, and may not send it any more.
                refusal["Connection"] = "close"
            await self.send_response(refusal, outgoing.send)
            return
        request, _ = self.create_request(scope, BytesIO(body))
        if request is None:
            await self.send_response(errors.bad_url(), outgoing.send)
            return
        try:
            await self._answer_while_connected(request, receive, outgoing.send)
        except asyncio.CancelledError:
            # The server stops.
            if not outgoing.has_begun:
                stopping = errors.response(Stopping())
                await self.send_response(stopping, outgoing.send)
            elif outgoing.is_open_chat:
                ending = sse.error(Stopping()) + sse.DONE
                await outgoing.send({"type": BODY, "body": ending})

    async def _answer_while_connected(
        self, request: ASGIRequest, receive: Receive, send: Send
    ) -> None:
        """Answer the request; when the client leaves or the server stops, break off.

        Either way it waits until the turn has put away what was said.
        """
        answering = asyncio.create_task(self._answer(request, send))
        self._answers.add(answering)
        answering.add_done_callback(self._answers.discard)
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait(
                (answering, leaving), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            leaving.cancel()
            answering.cancel()  # Nothing happens to an answer that is complete.
            await asyncio.wait((answering,))
        if answering.cancelled():
            return
        error = answering.exception()
        if error is not None and leaving.done() and not leaving.cancelled():
            logger.debug("the client left: %s", error)  # Its connection is closed.
        elif error is not None:
            raise error

    async def _answer(self, request: ASGIRequest, send: Send) -> None:
        answer = await self.run_get_response(request)
        patience = Patience(send, asyncio.current_task())
        try:
            await self.send_response(answer, patience.send)
        finally:
            patience.close()

    def handle_uncaught_exception(
        self, request: HttpRequest, resolver: Any, exc_info: Any
    ) -> HttpResponse:
        """Return what a client is told of a fault of ours."""
        return errors.on_internal_error(request, exc_info[1])

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return Django's response, in OpenAI's shape where it is an error."""
        answer = errors.shaped(request, await self.get_response_async(request))
        return await authentication.answered(request, answer)


class Outgoing:
    """What is sent of an answer, with the headers every answer has."""

    def __init__(self, send: Send, request_id: str, *, is_chat: bool) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self._is_chat = is_chat
        self._type = b""
        self.has_begun = False
        self._has_ended = False

    @property
    def is_open_chat(self) -> bool:
        """Whether it is a stream of OpenAI's frames that goes on."""
        is_stream = self._type == b"text/event-stream"
        return self._is_chat and is_stream and not self._has_ended

    async def send(self, message: Mapping[str, Any]) -> None:
        if not self.has_begun:
            self.has_begun = True
            self._add_to(message["headers"])
        self._has_ended = message["type"] == BODY and not message.get("more_body")
        await self._send(message)

    def _add_to(self, headers: list[tuple[bytes, bytes]]) -> None:
        given = {name.lower(): value for name, value in headers}
        self._type = given.get(b"content-type", b"")
        headers += [header for header in ALWAYS if header[0] not in given]
        headers.append((REQUEST_ID, self._request_id))


def check_host(headers: Headers) -> None:
    """Raise `HostRefused` unless the request is meant for this server."""
    host = headers.get(b"host", b"")
    if not hosts.is_allowed(host, _server().allowed_hosts):
        raise HostRefused(
            f"This server does not answer to the name {host.decode('latin1')!r}: add "
            "it to server.allowed_hosts in coulisse.yaml"
        )


async def _read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the whole body; raises `BodyTooLarge` as soon as that is known."""
    most = _server().max_body_bytes
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            raise _too_large(most)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body is larger than {most} bytes, the most this server takes; raise "
        "server.max_body_bytes or send less"
    )


def _server() -> ServerConfig:
    try:
        return live.current().get(SERVER)
    except ConfigInvalid:
        return ServerConfig()  # Who asks is told by the view.
