"""The base class of test servers, which run in a separate thread."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import orjson

from providers.config import ProviderConfig

WAIT_SECONDS = 60.0
"""The limit of waits that normally end at once."""


class RequestHead(NamedTuple):
    """The head of a request."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""


class FakeServer(ABC):
    """A server in a separate thread, so that it serves synchronous tests, too."""

    key: ClassVar[str]
    """The API key for its clients."""

    def __init__(self, *, port: int = 0) -> None:
        self._changed = threading.Condition()
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._released = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(WAIT_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)

    # The address.

    @property
    def port(self) -> int:
        return self._port

    @property
    def root_url(self) -> str:
        """Return the address for the kind `anthropic`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """Return the address for kinds with OpenAI's API."""
        return f"{self.root_url}/v1"

    def entry(self, kind: str = "openai", **fields: Any) -> dict[str, Any]:
        """Return an entry under `providers:` with this address."""
        address = self.root_url if kind == "anthropic" else self.base_url
        return {"kind": kind, "api_key": self.key, "base_url": address, **fields}

    def provider(self, kind: str = "openai", **fields: Any) -> ProviderConfig:
        """Return a configured provider with this address."""
        return ProviderConfig.model_validate(self.entry(kind, **fields))

    # Waiting.

    def release(self) -> None:
        """Let hanging answers continue, now and in the future."""
        self._loop.call_soon_threadsafe(self._released.set)

    def hold(self) -> None:
        """Let future answers hang again until the next `release`."""
        self._loop.call_soon_threadsafe(self._released.clear)

    def wait(
        self, condition: Callable[[], Any], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Block until a condition holds; raise TimeoutError at the timeout."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout_seconds):
                raise TimeoutError("the condition did not become true")

    async def until(
        self, condition: Callable[[], Any], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        await asyncio.to_thread(self.wait, condition, timeout_seconds)

    def _update(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    # The server.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self._listen())
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._loop.run_until_complete(self._close())
            self._loop.close()

    @abstractmethod
    async def _listen(self) -> asyncio.Server:
        """Start serving at `self._port`."""

    async def _close(self) -> None:
        # A connection that is being accepted has no handler yet.
        while pending := asyncio.all_tasks() - {asyncio.current_task()}:
            self._cancel(pending)
            await asyncio.wait(pending)
        # Aborted transports close their sockets one step later.
        await asyncio.sleep(0)

    def _cancel(self, pending: set[asyncio.Task[Any]]) -> None:
        for task in pending:
            task.cancel()


async def read_request(reader: asyncio.StreamReader) -> tuple[RequestHead, Any] | None:
    """Return a request's head and its body, parsed if JSON; None at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        body: Any = await reader.readexactly(int(headers.get("content-length", 0)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    method, path, _ = first.split(" ", 2)
    with suppress(orjson.JSONDecodeError):
        body = orjson.loads(body)
    return RequestHead(method, path, headers), body


def encode_chunk(data: bytes) -> bytes:
    """Return one chunk of a body with chunked encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)
