"""The load generator: raw sockets, so that it uses little CPU itself.

`python -m bench.load FILE` reads one JSON command a line from its standard input, the
fields of `LoadRequest`, opens the connections, prints "ready" and waits for the next
line, so that a measurement of CPU covers only the turns. At the end it prints "done",
and FILE has the fields of `LoadResult`. It is a file because a pipe lost the middle of
long lines.
"""

import asyncio
import gc
import itertools
import json
import re
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvloop

TIMEOUT_SECONDS = 60
"""Time limit of one load."""
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
TOKEN = b'"content":"word'
END = b"0\r\n\r\n"


@dataclass
class LoadRequest:
    """A load to send."""

    port: int
    bodies: list[str]
    """The bodies of the requests, in order."""
    connections: int = 1
    tokens: int = 0
    """Expected tokens of a stream; 0 for whole replies."""
    spread_seconds: float = 0.0
    """Time over which the connections' first requests are spread."""
    path: str = "/v1/chat/completions"
    head: str = ""
    """Further header lines, each with its line end."""
    mark: str = '"content":"word'
    """Text that every correct whole reply contains."""


@dataclass
class LoadResult:
    """The result of a load."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Latencies of whole replies, in milliseconds."""
    firsts: list[float] = field(default_factory=list)
    """Milliseconds from a request to its first token."""
    gaps: list[float] = field(default_factory=list)
    """Milliseconds between two tokens of a stream."""
    errors: int = 0
    first_error: str = ""

    def add_error(self, text: str) -> None:
        self.errors += 1
        self.first_error = self.first_error or text


class LoadClient(asyncio.Protocol):
    """One kept-alive connection, which sends one request after the other."""

    def __init__(
        self, load: LoadRequest, queue: deque[bytes], outcome: LoadResult
    ) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self._streams = load.tokens > 0
        self._tokens = load.tokens
        self._mark = load.mark.encode()
        self._queue = queue
        self._outcome = outcome
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy:
            self._outcome.add_error(f"the connection was closed: {exc}")
        self._finish()

    def send(self) -> None:
        if not self._queue:
            self._finish()
            return
        request = self._queue.popleft()
        self._received = b""
        self._size = 0
        self._arrivals: list[float] = []
        self._busy = True
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def _finish(self) -> None:
        self._busy = False
        if not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._received += data
        if self._streams and self._received.startswith(b"HTTP/1.1 200"):
            if TOKEN in data:
                self._arrivals.append(now)
            if self._received.endswith(END):
                self._finish_stream()
        elif self._is_complete():
            self._finish_reply(now)

    def _is_complete(self) -> bool:
        if not self._size:
            end = self._received.find(b"\r\n\r\n") + 4
            if end < 4:
                return False
            declared = LENGTH.search(self._received, 0, end)
            if declared is None:
                return self._received.endswith(END)
            self._size = end + int(declared[1])
        return len(self._received) >= self._size

    def _finish_reply(self, now: float) -> None:
        if self._received.startswith(b"HTTP/1.1 200") and self._mark in self._received:
            self._outcome.latencies.append((now - self._sent_at) * 1000)
        else:
            self._outcome.add_error(self._received.decode("latin-1"))
        self.send()

    def _finish_stream(self) -> None:
        arrivals = self._arrivals
        if self._received.count(TOKEN) != self._tokens:
            self._outcome.add_error(
                f"{self._received.count(TOKEN)} tokens instead of {self._tokens}: "
                + self._received[-400:].decode("latin-1")
            )
        else:
            self._outcome.firsts.append((arrivals[0] - self._sent_at) * 1000)
            self._outcome.gaps += [
                (late - early) * 1000 for early, late in itertools.pairwise(arrivals)
            ]
        self.send()


def _request(load: LoadRequest, body: str) -> bytes:
    encoded = body.encode()
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%b"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (load.path.encode(), load.port, load.head.encode(), len(encoded), encoded)
    )


async def run(load: LoadRequest) -> LoadResult:
    """Open the connections, wait for a line, then send all requests."""
    loop = asyncio.get_running_loop()
    outcome = LoadResult()
    queue = deque(_request(load, body) for body in load.bodies)
    clients = []
    try:
        for _ in range(load.connections):
            _, client = await loop.create_connection(
                lambda: LoadClient(load, queue, outcome), "127.0.0.1", load.port
            )
            clients.append(client)
    except OSError as exc:
        outcome.add_error(f"no connection: {exc}")
    print("ready", flush=True)
    sys.stdin.readline()
    started_at = time.perf_counter()
    for number, client in enumerate(clients):
        loop.call_later(number * load.spread_seconds / len(clients), client.send)
    rest = asyncio.gather(*(client.done for client in clients))
    try:
        await asyncio.wait_for(rest, TIMEOUT_SECONDS)
    except TimeoutError:
        outcome.add_error(f"not finished after {TIMEOUT_SECONDS} s")
    outcome.seconds = time.perf_counter() - started_at
    for client in clients:
        client._busy = False
        client._transport.close()
    return outcome


def main() -> None:
    gc.disable()
    for line in sys.stdin:
        outcome = uvloop.run(run(LoadRequest(**json.loads(line))))
        Path(sys.argv[1]).write_text(json.dumps(asdict(outcome)))
        print("done", flush=True)
        del outcome
        gc.collect()


if __name__ == "__main__":
    main()
