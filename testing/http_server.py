"""Base of the test servers: a thread of their own, and recorded requests."""

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
"""For what comes, if nothing is wrong, at once."""


class RequestHead(NamedTuple):
    """How a request begins."""

    method: str
    path: str
    headers: dict[str, str]
    """By their names in lower case."""


class FakeServer(ABC):
    """A server in a thread of its own, so that it serves synchronous tests, too."""

    key: ClassVar[str]
    """What its clients are to send."""

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

    # Where it is.

    @property
    def port(self) -> int:
        """Return where it listens."""
        return self._port

    @property
    def root_url(self) -> str:
        """Return the address, as the kind anthropic wants it."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """Return the address, as kinds that speak like OpenAI want it."""
        return f"{self.root_url}/v1"

    def entry(self, kind: str = "openai", **fields: Any) -> dict[str, Any]:
        """Return an entry for the YAML's `providers:` that leads here."""
        address = self.root_url if kind == "anthropic" else self.base_url
        return {"kind": kind, "api_key": self.key, "base_url": address, **fields}

    def provider(self, kind: str = "openai", **fields: Any) -> ProviderConfig:
        """Return a configured provider that leads here."""
        return ProviderConfig.model_validate(self.entry(kind, **fields))

    # What happened.

    def release(self) -> None:
        """Let hanging answers go on, these and those to come."""
        self._loop.call_soon_threadsafe(self._released.set)

    def hold(self) -> None:
        """Let answers to come hang again, until they are released."""
        self._loop.call_soon_threadsafe(self._released.clear)

    def wait(
        self, condition: Callable[[], Any], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Block until something is true of it; raise TimeoutError if it never is."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout_seconds):
                raise TimeoutError("the fake server never saw that")

    async def until(
        self, condition: Callable[[], Any], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        await asyncio.to_thread(self.wait, condition, timeout_seconds)

    def _update(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    # How it serves.

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
        """Begin to serve, at `self._port`."""

    async def _close(self) -> None:
        # A connection that is just being accepted has its talk yet to come.
        while pending := asyncio.all_tasks() - {asyncio.current_task()}:
            self._cancel(pending)
            await asyncio.wait(pending)
        # Aborted transports let go of their sockets a step later.
        await asyncio.sleep(0)

    def _cancel(self, pending: set[asyncio.Task[Any]]) -> None:
        for task in pending:
            task.cancel()


async def read_request(reader: asyncio.StreamReader) -> tuple[RequestHead, Any] | None:
    """Return a request's head and body, parsed where it is JSON; None at the end."""
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
    """Return a piece of a body whose length nobody knew."""
    return b"%x\r\n%b\r\n" % (len(data), data)
