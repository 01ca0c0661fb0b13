"""One attempt at a call: a request to one endpoint, and its response."""

import asyncio
import contextlib
import functools
import io
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import aiohttp
import orjson

from core.errors import CoulisseError
from core.events import Event
from providers.resilience import error_mapping
from providers.resilience.error_mapping import (
    PARSE_ERRORS,
    TRANSPORT_ERRORS,
    ProviderSource,
)
from providers.resilience.timeouts import CallDeadline
from providers.transport.response_stream import ResponseStream
from providers.wires.base import Wire

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 30.0
DRAIN_SECONDS = 0.25
ERROR_BODY_SECONDS = 2.0
"""How long to wait for the body of an error status."""
MAX_ERROR_BYTES = 64 * 1024
# aiohttp warns of larger bodies given as bytes, because it writes them at once.
MAX_WHOLE_BODY_BYTES = 1024 * 1024

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
    WeakKeyDictionary()
)


async def close_session() -> None:
    """Close the connections of this event loop."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


def open_loops() -> list[asyncio.AbstractEventLoop]:
    """Return the event loops that hold connections."""
    # A copy: other threads may add theirs meanwhile.
    return [loop for ref in _sessions.keyrefs() if (loop := ref()) is not None]


def _session() -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        session = _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS
            ),
            # A cookie for one user must not be sent for another.
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity", "User-Agent": "coulisse"},
            timeout=aiohttp.ClientTimeout(total=None),
        )
    return session


async def fetch_status(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> int:
    """Return the status of a request; raises `TRANSPORT_ERRORS`."""
    async with _session().request(
        method,
        url,
        data=body,
        headers=headers,
        proxy=_proxy_url(url),
        allow_redirects=False,
    ) as response:
        return response.status


@functools.lru_cache(maxsize=64)
def _proxy_url(url: str) -> str | None:
    """Return the environment's proxy; aiohttp itself would look it up on each call."""
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


@dataclass(slots=True)
class EndpointRequest(Generic[T]):
    source: ProviderSource
    url: str
    body: bytes
    headers: Mapping[str, str]
    read: Callable[[Any, ProviderSource], T]
    """Parses a whole reply."""
    stream_wire: Wire | None = None
    """The wire that reads the stream; None for a whole reply."""


class HttpExchange(Generic[T]):
    def __init__(self, request: EndpointRequest[T], deadline: CallDeadline) -> None:
        self.reply: T | None = None
        """The whole reply, unless it is a stream."""
        self.first_events: Iterable[Event] = ()
        """The first events of a stream."""
        self.stream: ResponseStream | None = None
        self._request = request
        self._source = request.source
        self._deadline = deadline
        self._response: aiohttp.ClientResponse | None = None
        self._upload = aiohttp.UploadTracker()

    @property
    def is_sent(self) -> bool:
        """Whether the whole request was sent, so the provider may run it."""
        upload = self._upload.upload_complete
        return upload.done() and upload.exception() is None

    async def start(self) -> None:
        """Send the request and wait for the first events."""
        self._deadline.start_attempt(self._source)
        response = self._response = await self._deadline.wait(self._post())
        if response.status != 200:
            raise await self._status_error(response)
        if response.content_type == "text/html":
            raise error_mapping.malformed_reply(
                self._source,
                "is a web page",
                detail=f"check {self._source.setting('base_url')}",
            )
        # Some servers answer a streamed request in one piece.
        wire = self._request.stream_wire
        if wire is not None and response.content_type != "application/json":
            self.stream = self._open_stream(response, wire)
            self.first_events = await self.stream.next_events()
        else:
            self.reply = await self._read_reply(response)

    async def _post(self) -> aiohttp.ClientResponse:
        request = self._request
        body = request.body
        try:
            return await _session().post(
                request.url,
                data=body if len(body) < MAX_WHOLE_BODY_BYTES else io.BytesIO(body),
                headers=request.headers,
                proxy=_proxy_url(request.url),
                timeout=_timeout(self._source.provider.timeouts.connect_seconds),
                # A key must not follow a redirect to an unknown host.
                allow_redirects=False,
                upload_tracker=self._upload,
            )
        except ValueError as exc:
            # aiohttp cannot encode a header or the address.
            raise error_mapping.from_send_error(self._source, exc) from exc

    async def _status_error(self, response: aiohttp.ClientResponse) -> CoulisseError:
        body = bytearray()
        # Without the body, the status is enough.
        with contextlib.suppress(CoulisseError, TimeoutError):
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                await self._deadline.wait(_read_error_body(response.content, body))
        return error_mapping.from_status(
            self._source, response.status, response.headers, bytes(body)
        )

    def _open_stream(
        self, response: aiohttp.ClientResponse, wire: Wire
    ) -> ResponseStream:
        return ResponseStream(
            self._source,
            response,
            reader=wire.reader(self._source),
            deadline=self._deadline,
        )

    async def _read_reply(self, response: aiohttp.ClientResponse) -> T:
        body = await self._read_body(response.content)
        try:
            return self._request.read(orjson.loads(body), self._source)
        except PARSE_ERRORS as exc:
            raise error_mapping.from_exception(self._source, exc) from exc

    async def _read_body(self, content: aiohttp.StreamReader) -> bytes:
        body = bytearray()
        # A piece that has arrived already needs no wait.
        while piece := await (
            content.readany()
            if content.is_eof()
            else self._deadline.wait(content.readany())
        ):
            body += piece
            self._deadline.received = True
            error_mapping.check_size(self._source, len(body))
        return bytes(body)

    async def drain(self) -> None:
        """Wait briefly for the end of the body, so the connection can be reused."""
        response = self._response
        if response is None or response.content.at_eof():
            return
        with contextlib.suppress(*TRANSPORT_ERRORS):
            async with asyncio.timeout(DRAIN_SECONDS):
                await response.content.readany()

    def close(self) -> None:
        """Release the connection if the reply was read to its end, else close it."""
        if self.stream is not None:
            self.stream.close()
        response = self._response
        if response is None:
            return
        if response.content.at_eof():
            response.release()
        else:
            response.close()


@functools.lru_cache(maxsize=64)
def _timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)


async def _read_error_body(content: aiohttp.StreamReader, body: bytearray) -> None:
    """Read the beginning of an error's body into `body`, piece by piece."""
    while len(body) < MAX_ERROR_BYTES and (piece := await content.readany()):
        body += piece
