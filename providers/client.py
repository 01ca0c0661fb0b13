"""Calls to models: connections, timeouts, retries.

    async for event in client.run("openai", provider, call): ...

Closing the generator, or cancelling its task, closes the provider's connection at
once, whether it has answered or not.
"""

import asyncio
import contextlib
import functools
import io
import logging
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import aiohttp
import orjson

from core.errors import CoulisseError, Invalid, recorded
from core.events import Event
from core.trace import Attempt
from providers import backoff, failures, kinds, parameters
from providers.calls import ModelCall
from providers.config import ProviderConfig
from providers.failures import FOREIGN, MISSHAPEN, Source
from providers.patience import Patience
from providers.stream import Stream
from providers.wire import Wire

T = TypeVar("T")

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 30.0
DRAIN_SECONDS = 0.25
BROKEN_OFF = "broken off"
"""The error of an attempt whose caller left before it was answered."""
MAX_ERROR_BYTES = 64 * 1024
# aiohttp warns of larger bodies given as bytes, for it writes them in one go.
MAX_WHOLE_BODY_BYTES = 1024 * 1024

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
    WeakKeyDictionary()
)


async def run(
    name: str,
    provider: ProviderConfig,
    call: ModelCall,
    attempts: list[Attempt] | None = None,
) -> AsyncGenerator[Event]:
    """Make one call and yield what the model says; the last event is Finished.

    `name` is the provider's key in the YAML. Failures before the first event are
    tried again as the configuration allows; none is after it. Every request sent is
    put into `attempts` once its reply has begun or failed; one that is broken off
    before, because the caller leaves, is put there with the error "broken off". Raises
    what `providers.errors` lists, and Invalid for what the provider's API cannot say.
    """
    exchange = await _begin(_prepare(name, provider, call, attempts))
    try:
        for event in exchange.whole or exchange.first:
            yield event
        stream = exchange.stream
        while stream is not None and not stream.finished:
            for event in await stream.more():
                yield event
        await exchange.drain()
    finally:
        exchange.close()


async def ask(
    source: Source,
    url: str,
    body: Mapping[str, Any],
    read: Callable[[Any, Source], T],
    *,
    headers: Mapping[str, str],
    attempts: list[Attempt] | None = None,
) -> T:
    """Post JSON and return what `read` makes of the JSON that comes back.

    Tried again and told of in `attempts` as `run` does; raises the same errors. What
    `read` finds wrong it raises as `failures.broken`, or as any of
    `failures.MISSHAPEN`.
    """
    request = _Request(source, url, body, read, headers=headers, attempts=attempts)
    exchange = await _begin(request)
    try:
        # Set by an exchange without a stream.
        whole: T = exchange.whole  # type: ignore[assignment]
        await exchange.drain()
        return whole
    finally:
        exchange.close()


async def close() -> None:
    """Close the connections of this event loop."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


def loops() -> list[asyncio.AbstractEventLoop]:
    """Return the event loops that hold connections."""
    return list(_sessions)


def _session() -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        session = _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS
            ),
            # What a provider sets for one user must not come back for another.
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity", "User-Agent": "coulisse"},
            timeout=aiohttp.ClientTimeout(total=None),
        )
    return session


@functools.lru_cache(maxsize=64)
def _proxy(url: str) -> str | None:
    """Return the proxy the environment wants; aiohttp itself would ask each call."""
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


class _Request(Generic[T]):
    """A call made ready: everything its attempts share."""

    def __init__(
        self,
        source: Source,
        url: str,
        body: Mapping[str, Any],
        read: Callable[[Any, Source], T],
        *,
        headers: Mapping[str, str],
        streams: Wire | None = None,
        attempts: list[Attempt] | None = None,
    ) -> None:
        provider = source.provider
        self.source = source
        self.url = url
        self.body = _encode(body)
        self.headers = _headers(provider, headers)
        self.read = read
        """Makes sense of a whole reply."""
        self.streams = streams
        """What reads the stream that is asked for, if one is."""
        self.attempts = [] if attempts is None else attempts
        self.retries = provider.retries
        self.patience = Patience(source, stream=streams is not None)
        self.timeout = aiohttp.ClientTimeout(
            total=None, connect=provider.timeouts.connect_seconds
        )


def _prepare(
    name: str,
    provider: ProviderConfig,
    call: ModelCall,
    attempts: list[Attempt] | None,
) -> _Request[Iterable[Event]]:
    parameters.check(name, provider, call.parameters)
    wire = kinds.of(provider).wire
    return _Request(
        Source(name, provider, call.model),
        kinds.url(provider),
        wire.body(call),
        wire.read,
        headers=wire.headers(_key(provider)),
        streams=wire if call.stream else None,
        attempts=attempts,
    )


def _key(provider: ProviderConfig) -> str | None:
    return None if provider.api_key is None else provider.api_key.get_secret_value()


def _headers(provider: ProviderConfig, wire: Any) -> dict[str, str]:
    extra = {
        name: secret.get_secret_value() for name, secret in provider.headers.items()
    }
    return {"Content-Type": "application/json", **wire, **extra}


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as exc:
        # Lone surrogates, numbers past 64 bits: valid to Python, not to JSON.
        raise Invalid(f"the request cannot be written as JSON: {exc}") from exc


async def _begin(request: _Request[T]) -> "_Exchange[T]":
    """Return an exchange whose reply has begun, after as many tries as allowed."""
    attempt = 0
    while True:
        exchange = _Exchange(request)
        sent = time.perf_counter()
        try:
            await exchange.start()
        except CoulisseError as error:
            exchange.close()
            _note(request, sent, recorded(error))
            attempt += 1
            wait_seconds = _wait_seconds(request, error, attempt)
            if wait_seconds is None:
                raise
            logger.info("retry %d in %.1f s: %s", attempt, wait_seconds, error)
        except BaseException:
            exchange.close()
            _note(request, sent, BROKEN_OFF)
            raise
        else:
            _note(request, sent, None)
            return exchange
        await backoff.pause(wait_seconds)
        request.patience.spend(wait_seconds)


def _note(request: _Request[T], sent: float, error: str | None) -> None:
    seconds = time.perf_counter() - sent
    request.attempts.append(Attempt("", seconds, error))


def _wait_seconds(
    request: _Request[T], error: CoulisseError, attempt: int
) -> float | None:
    """Return how long to wait before another try, or None if there is none."""
    if attempt > request.retries or not getattr(error, "retryable", False):
        return None
    seconds = backoff.wait_seconds(attempt, getattr(error, "retry_after_seconds", None))
    if seconds is None or seconds >= request.patience.left:
        return None
    return seconds


class _Exchange(Generic[T]):
    """One attempt at a call: a request and its response."""

    def __init__(self, request: _Request[T]) -> None:
        self.whole: T | None = None
        """All of the reply, unless it is a stream."""
        self.first: Iterable[Event] = ()
        """The first events of a stream."""
        self.stream: Stream | None = None
        self._request = request
        self._source = request.source
        self._patience = request.patience
        self._response: aiohttp.ClientResponse | None = None

    async def start(self) -> None:
        """Send the request and wait for the first events."""
        self._patience.begin()
        response = self._response = await self._patience.wait(self._post())
        if response.status != 200:
            raise await self._status_error(response)
        if response.content_type == "text/html":
            raise failures.broken(
                self._source,
                f"is a web page: check {self._source.setting('base_url')}",
            )
        # Some servers answer in one piece though a stream was asked for.
        wire = self._request.streams
        if wire is not None and response.content_type != "application/json":
            self.stream = self._open(response, wire)
            self.first = await self.stream.more()
        else:
            self.whole = await self._whole(response)

    async def _post(self) -> aiohttp.ClientResponse:
        request = self._request
        body = request.body
        try:
            return await _session().post(
                request.url,
                data=body if len(body) < MAX_WHOLE_BODY_BYTES else io.BytesIO(body),
                headers=request.headers,
                proxy=_proxy(request.url),
                timeout=request.timeout,
                # A key must not follow a redirect to who knows where.
                allow_redirects=False,
            )
        except ValueError as exc:
            # A header or an address that aiohttp finds no way to write.
            raise failures.not_sent(self._source, exc) from exc

    async def _status_error(self, response: aiohttp.ClientResponse) -> CoulisseError:
        body = b""
        # The status says enough when its explanation does not arrive.
        with contextlib.suppress(CoulisseError):
            body = await self._patience.wait(response.content.read(MAX_ERROR_BYTES))
        return failures.from_status(
            self._source, response.status, response.headers, body
        )

    def _open(self, response: aiohttp.ClientResponse, wire: Wire) -> Stream:
        return Stream(
            self._source,
            response,
            reader=wire.reader(self._source),
            patience=self._patience,
        )

    async def _whole(self, response: aiohttp.ClientResponse) -> T:
        reading = self._read(response.content)
        # What all came with its head is not waited for.
        at_hand = response.content.is_eof()
        body = await (reading if at_hand else self._patience.wait(reading))
        try:
            return self._request.read(orjson.loads(body), self._source)
        except MISSHAPEN as exc:
            raise failures.from_exception(self._source, exc) from exc

    async def _read(self, content: aiohttp.StreamReader) -> bytes:
        body = bytearray()
        while piece := await content.readany():
            body += piece
            failures.check_size(self._source, len(body))
        return bytes(body)

    async def drain(self) -> None:
        """Wait a moment for the end of the body, so the connection can be kept."""
        response = self._response
        if response is None or response.content.at_eof():
            return
        with contextlib.suppress(*FOREIGN):
            async with asyncio.timeout(DRAIN_SECONDS):
                await response.content.readany()

    def close(self) -> None:
        """Give the connection back if the reply was read to its end, else close it."""
        if self.stream is not None:
            self.stream.close()
        response = self._response
        if response is None:
            return
        if response.content.at_eof():
            response.release()
        else:
            response.close()
