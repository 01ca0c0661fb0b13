"""An application behind the web process's protocol, and a raw client."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from processes.http_server.connections import ConnectionLimits
from tests.conftest import serve

SECONDS = 60.0
"""Time limit of steps that are immediate on an idle machine."""
QUICK = ConnectionLimits(poll_seconds=0.02)
HEAD = b"GET / HTTP/1.1\r\nHost: test\r\n"
POST = b"POST / HTTP/1.1\r\nHost: test\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class Echo:
    """An application that describes its request, and records disconnects."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Event()
        self.disconnected = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        elif scope["path"] == "/endless":
            await self._stream(receive, send)
        elif scope["path"] == "/large":
            await self._respond(send, b"x" * 50_000_000)
        else:
            await self._echo(scope, receive, send)

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        self.started.set()
        await asyncio.to_thread(self.gate.wait, SECONDS)
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.set()
                return
            size += len(message["body"])
            more = message["more_body"]
        names = [name.decode() for name, _ in scope["headers"]]
        request = {"path": scope["path"], "size": size, "headers": names}
        await self._respond(send, json.dumps(request).encode())

    async def _stream(self, receive: Any, send: Any) -> None:
        """Send ticks until the client disconnects."""
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.started.set()
        tick = {"type": "http.response.body", "body": b"tick\n", "more_body": True}
        waiting = asyncio.create_task(receive())
        while not (await asyncio.wait([waiting], timeout=0.01))[0]:
            await send(tick)
        self.disconnected.set()

    async def _respond(self, send: Any, content: bytes) -> None:
        length = (b"content-length", b"%d" % len(content))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": content})


class Client:
    """A bare connection."""

    def __init__(self, url: str, sent: bytes = b"") -> None:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        self.socket = socket.create_connection(
            (address.hostname, address.port), SECONDS
        )
        self.received = b""
        self.send(sent)

    def send(self, data: bytes) -> bool:
        """Send, and return whether the server still receives."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def read_until(self, text: bytes) -> None:
        """Wait until the server has sent this text."""
        while text not in self.received:
            piece = self.socket.recv(65536)
            assert piece, f"the server closed the connection after {self.received!r}"
            self.received += piece

    def read_all(self) -> bytes:
        """Wait until the server closes the connection; return all that it sent."""
        try:
            while piece := self.socket.recv(65536):
                self.received += piece
        except ConnectionResetError:
            pass
        return self.received

    def refusal(self) -> tuple[int, str]:
        """Return the status and the code of the only response, a JSON error."""
        head, _, content = self.read_all().partition(b"\r\n\r\n")
        assert b"\r\nconnection: close\r\n" in head + b"\r\n"
        assert b"\r\ncontent-type: application/json\r\n" in head
        error = json.loads(content)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        return int(head.split()[1]), error["code"]


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def serving(echo: Echo) -> Iterator[Callable[..., str]]:
    """Return a function that serves with limits, and returns the URL."""
    with ExitStack() as stack:

        def serving(**limits: Any) -> str:
            return stack.enter_context(serve(echo, limits=replace(QUICK, **limits)))

        yield serving
        echo.gate.set()


@pytest.fixture
def open_client() -> Iterator[Callable[..., Client]]:
    clients = []

    def open_client(url: str, sent: bytes = b"") -> Client:
        clients.append(Client(url, sent))
        return clients[-1]

    yield open_client
    for client in clients:
        client.socket.close()
