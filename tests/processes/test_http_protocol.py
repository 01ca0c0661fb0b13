"""What the web process's protocol does with requests that are wrong, slow or many."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import connect

from processes.http_server.connections import ConnectionLimits
from tests.conftest import serve

SECONDS = 60.0
"""How long is waited for what comes, if nothing is wrong, at once."""
QUICK = ConnectionLimits(poll_seconds=0.02)
HEAD = b"GET / HTTP/1.1\r\nHost: test\r\n"
POST = b"POST / HTTP/1.1\r\nHost: test\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class Echo:
    """An application that answers with what it has read, and says when it is left."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.left = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        elif scope["path"] == "/endless":
            await self._stream(receive, send)
        elif scope["path"] == "/large":
            await self._answer(send, b"x" * 50_000_000)
        else:
            await self._echo(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.set()
        await asyncio.to_thread(self.gate.wait, SECONDS)
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            size += len(message["body"])
            more = message["more_body"]
        names = [name.decode() for name, _ in scope["headers"]]
        told = {"path": scope["path"], "size": size, "headers": names}
        await self._answer(send, json.dumps(told).encode())

    async def _stream(self, receive: Any, send: Any) -> None:
        """Send ticks until the client is gone."""
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.begun.set()
        tick = {"type": "http.response.body", "body": b"tick\n", "more_body": True}
        waiting = asyncio.create_task(receive())
        while not (await asyncio.wait([waiting], timeout=0.01))[0]:
            await send(tick)
        self.left.set()

    async def _answer(self, send: Any, content: bytes) -> None:
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
        self.heard = b""
        self.send(sent)

    def send(self, data: bytes) -> bool:
        """Send, and return whether the server still takes it."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def hear(self, text: bytes) -> None:
        """Wait until the server has said this."""
        while text not in self.heard:
            piece = self.socket.recv(65536)
            assert piece, f"the server hung up after {self.heard!r}"
            self.heard += piece

    def end(self) -> bytes:
        """Wait until the server hangs up, and return all it said."""
        try:
            while piece := self.socket.recv(65536):
                self.heard += piece
        except ConnectionResetError:
            pass
        return self.heard

    def refusal(self) -> tuple[int, str]:
        """Return the status and the code of the only answer, a JSON error."""
        head, _, content = self.end().partition(b"\r\n\r\n")
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
            chosen = replace(QUICK, **limits)
            return stack.enter_context(serve(echo, limits=chosen))

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


# Heads that are wrong.

LINES = b"".join(b"X-%d: a\r\n" % number for number in range(99))
WRONG = {
    "two hosts": (HEAD + b"Host: other\r\n\r\n", 400, "host_repeated"),
    "the same host twice": (HEAD + b"hOST: test\r\n\r\n", 400, "host_repeated"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "host_missing"),
    "a long host": (
        b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * 256),
        *(400, "host_too_long"),
    ),
    "101 lines": (HEAD + LINES + b"X: a\r\n\r\n", 431, "too_many_headers"),
    "many lines without an end": (HEAD + b"X: a\r\n" * 5000, 431, "too_many_headers"),
    "a large header": (
        HEAD + b"X: %b\r\n\r\n" % (b"x" * 65536),
        *(431, "headers_too_large"),
    ),
    "a header without an end": (HEAD + b"X: " + b"x" * 500_000, 431, "headers_too_la"),
    "blank lines without an end": (b"\r\n" * 250_000, 431, "headers_too_large"),
    "a name without an end": (HEAD + b"x" * 500_000, 431, "headers_too_large"),
    "a long target": (
        b"GET /%b HTTP/1.1\r\nHost: test\r\n\r\n" % (b"x" * 16384),
        *(414, "url_too_long"),
    ),
    "a target without an end": (b"GET /" + b"x" * 500_000, 431, "headers_too_large"),
    "a folded line": (HEAD + b"X: a\r\n b\r\n\r\n", 400, "malformed_request"),
    "a line before the first": (
        b"GET / HTTP/1.1\r\n Host: test\r\n\r\n",
        *(400, "malformed_request"),
    ),
    "two lengths": (
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        *(400, "malformed_request"),
    ),
    "a length twice": (
        POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        *(400, "malformed_request"),
    ),
    "a list of lengths": (
        POST + b"Content-Length: 1, 1\r\n\r\na",
        *(400, "malformed_request"),
    ),
    "a length and chunks": (
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        *(400, "malformed_request"),
    ),
    "a coding we lack": (
        POST + b"Transfer-Encoding: gzip\r\n\r\nab",
        *(400, "malformed_request"),
    ),
    "a huge length": (
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        *(400, "malformed_request"),
    ),
    "a chunk that is none": (CHUNKED + b"zz\r\n", 400, "malformed_request"),
    "a blank before the colon": (HEAD + b"X : a\r\n\r\n", 400, "malformed_request"),
    "NUL": (HEAD + b"X: a\0b\r\n\r\n", 400, "malformed_request"),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"),
    "bytes in the target": (
        b"GET /\xff HTTP/1.1\r\nHost: test\r\n\r\n",
        *(400, "malformed_request"),
    ),
    "a tunnel": (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed_request"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "malformed_request"),
    "many trailers": (
        CHUNKED + b"1\r\na\r\n0\r\n" + b"X: a\r\n" * 5000,
        *(431, "too_many_headers"),
    ),
    "an extension of a chunk without an end": (
        CHUNKED + b"1;" + b"x" * 9_000_000,
        *(413, "body_too_large"),
    ),
    "a trailer without an end": (
        CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 9_000_000,
        *(413, "body_too_large"),
    ),
}


@pytest.mark.parametrize(("sent", "status", "code"), WRONG.values(), ids=WRONG)
def test_malformed_request_is_refused_as_json(serving, open_client, sent, status, code):
    told = open_client(serving(linger_seconds=SECONDS), sent)
    told.socket.shutdown(socket.SHUT_WR)
    answered, named = told.refusal()
    assert (answered, named.startswith(code)) == (status, True), named


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + LINES + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * 255),
        b"GET /%b HTTP/1.1\r\nHost: test\r\n\r\n" % (b"x" * 16383),
        HEAD + b"X: %b\r\n\r\n" % (b"x" * 65_000),
        b"GET / HTTP/1.0\r\n\r\n",
        b"\r\n\r\n" + HEAD + b"\r\n",
    ],
)
def test_request_just_within_the_limits_is_served(serving, open_client, sent):
    client = open_client(serving(), sent)
    client.hear(b"\r\n")
    assert client.heard.startswith(b"HTTP/1.1 200")


def test_websocket_with_two_hosts_is_refused(serving, open_client):
    client = open_client(
        serving(),
        HEAD + b"Host: other\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n",
    )
    assert client.refusal() == (400, "host_repeated")


def test_trailers_do_not_become_headers(serving, open_client):
    client = open_client(serving(), CHUNKED + b"1\r\na\r\n0\r\nHost: other\r\n\r\n")
    client.hear(b"}")
    told = json.loads(client.heard.partition(b"\r\n\r\n")[2])
    assert told["headers"] == ["host", "transfer-encoding"]


def test_slowly_sent_headers_are_limited(serving, open_client):
    client = open_client(serving(), HEAD)
    # A few at a time, and no line is ever complete.
    while client.send(b"x" * 20_000):
        pass
    assert b"431" in client.end() or not client.heard  # A reset may lose the answer.


def test_malformed_requests_are_one_line_in_the_log(serving, open_client, caplog):
    url = serving()
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            assert open_client(url, b"nonsense\r\n\r\n").refusal()[0] == 400
    assert caplog.text.count("could not be read") == 1


def test_pipelined_requests_are_limited(serving, open_client, echo):
    url = serving()
    few = open_client(url, (HEAD + b"\r\n") * 5)
    few.hear(b"200")
    while few.heard.count(b"HTTP/1.1 200") < 5:
        few.heard += few.socket.recv(65536)
    echo.gate.clear()
    many = open_client(url, (HEAD + b"\r\n") * 1000)
    assert many.end() == b""


# Requests that do not arrive.


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_disconnect_reaches_the_running_request(
    serving, open_client, echo, caplog, count
):
    client = open_client(serving())
    client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n" * count)
    assert echo.begun.wait(SECONDS)

    client.socket.close()

    assert echo.left.wait(SECONDS)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_incomplete_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2), HEAD)
    assert client.refusal() == (408, "request_timeout")


def test_slowly_sent_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2, linger_seconds=0.2), HEAD)
    while client.send(b"X: a\r\n"):
        time.sleep(0.01)
    assert client.end() in (b"", client.heard)


def test_silent_connection_is_closed_without_an_answer(serving, open_client):
    assert open_client(serving(head_seconds=0.2)).end() == b""


def test_idle_keep_alive_connection_is_closed(serving, open_client):
    client = open_client(serving(idle_seconds=0.2), HEAD + b"\r\n")
    client.hear(b"}")
    assert client.end() == client.heard


def test_empty_lines_do_not_keep_a_connection_alive(serving, open_client):
    client = open_client(serving(idle_seconds=0.2), HEAD + b"\r\n")
    client.hear(b"}")
    while client.send(b"\r\n"):
        time.sleep(0.01)
    assert not client.send(b"\r\n")


def test_incomplete_second_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2, idle_seconds=30), HEAD + b"\r\n")
    client.hear(b"}")
    client.send(HEAD)
    assert b"HTTP/1.1 408" in client.end()


def test_incomplete_body_times_out(serving, open_client, echo):
    url = serving(body_seconds=0.2)
    client = open_client(url, POST + b"Content-Length: 30\r\n\r\nabc")
    assert client.refusal() == (408, "request_timeout")
    assert echo.left.wait(SECONDS)


@pytest.mark.parametrize(
    "limits", [{"body_seconds": 0.3}, {"body_seconds": 99, "window_seconds": 0.3}]
)
def test_slowly_sent_body_times_out(serving, open_client, limits):
    url = serving(**limits, linger_seconds=0.2)
    client = open_client(url, POST + b"Content-Length: 3000000\r\n\r\n")
    while client.send(b"x"):
        time.sleep(0.01)
    assert not client.send(b"x")


def test_steady_body_may_exceed_the_timeout(serving, open_client):
    url = serving(
        body_seconds=0.1,
        body_bytes_per_second=100,
        window_seconds=0.5,
        min_bytes_per_second=10,
    )
    client = open_client(url, POST + b"Content-Length: 30000\r\n\r\n")
    for _ in range(30):
        assert client.send(b"x" * 1000)
        time.sleep(0.02)
    client.hear(b'"size": 30000')


def test_client_is_not_timed_out_by_an_unread_body(serving, open_client, echo):
    url = serving(body_seconds=0.1, window_seconds=0.1, body_bytes_per_second=10**9)
    echo.gate.clear()
    client = open_client(url, POST + b"Content-Length: 4000000\r\n\r\n")
    sending = threading.Thread(target=client.send, args=(b"x" * 4_000_000,))
    sending.start()
    asking = open_client(
        url, POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    )
    time.sleep(0.5)  # Several times what each of them may take.
    echo.gate.set()
    asking.hear(b"100 Continue")
    asking.send(b"abc")
    asking.hear(b'"size": 3')
    client.hear(b'"size": 4000000')
    sending.join()
    assert asking.heard.count(b" 200 ") == client.heard.count(b" 200 ") == 1


def test_unread_answer_times_out(serving, open_client):
    url = serving(idle_seconds=0.1, window_seconds=0.3)
    client = open_client(url, b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
    client.hear(b"200")
    # Nothing more is read until the server has given up.
    time.sleep(1.0)
    while not is_reset(client):
        time.sleep(0.1)
    assert len(client.end()) < 50_000_000


def is_reset(client: Client) -> bool:
    return bool(client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) or (
        not client.send(b"\r\n")
    )


def test_slowly_read_answer_is_complete(serving, open_client):
    url = serving(idle_seconds=0.1, window_seconds=1.0)
    client = open_client(url, b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
    while len(client.heard) < 50_000_000:
        piece = client.socket.recv(2_000_000)
        assert piece
        client.heard += piece
        time.sleep(0.02)


def test_honest_clients_are_served_while_slow_ones_end(serving, open_client):
    url = serving(head_seconds=0.3, linger_seconds=0.1)
    slow = [open_client(url, HEAD) for _ in range(50)]
    with connect(url.replace("http", "ws")) as ws:
        for client in slow:
            assert client.refusal()[0] == 408
        ws.send("still here")
        honest = open_client(url, HEAD + b"\r\n")
        honest.hear(b"200")
        ws.ping().wait(SECONDS)


# Connections that are too many.


def test_connection_over_the_limit_is_answered_503(serving, open_client, caplog):
    url = serving(max_connections=2, linger_seconds=SECONDS)
    kept = [open_client(url, HEAD + b"\r\n") for _ in range(2)]
    for client in kept:
        client.hear(b"200")
    for _ in range(5):
        client = open_client(url, HEAD + b"\r\n")
        assert client.refusal() == (503, "too_many_connections")
        assert b"\r\nretry-after: 2\r\n" in client.heard
    assert caplog.text.count("connections refused") == 1


def test_liveness_is_answered_over_the_limit(serving, open_client):
    url = serving(max_connections=1, linger_seconds=SECONDS)
    open_client(url, HEAD + b"\r\n").hear(b"200")
    client = open_client(url, b"GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n")
    client.hear(b"200")
    assert b"\r\nconnection: close\r\n" in client.end()


def test_connection_over_the_limit_has_a_shorter_timeout(serving, open_client):
    url = serving(max_connections=1, linger_seconds=0.2)
    open_client(url, HEAD + b"\r\n").hear(b"200")
    assert open_client(url, HEAD).refusal() == (408, "request_timeout")


def test_connections_over_the_reserve_are_closed(serving, open_client):
    url = serving(max_connections=1, reserve=2, linger_seconds=SECONDS)
    open_client(url, HEAD + b"\r\n").hear(b"200")
    waiting = [open_client(url, HEAD) for _ in range(2)]
    assert open_client(url).end() == b""
    for client in waiting:
        client.send(b"\r\n")
        assert client.refusal()[0] == 503


def test_websocket_counts_until_it_closes(serving, open_client):
    url = serving(max_connections=1, linger_seconds=SECONDS)
    with connect(url.replace("http", "ws")):
        assert open_client(url, HEAD + b"\r\n").refusal()[0] == 503
    until_served(url, open_client)


def until_served(url: str, open_client: Callable[..., Client]) -> None:
    """Wait until the server has noticed that there is room."""
    deadline = time.monotonic() + SECONDS
    while b"200" not in open_client(url, HEAD + b"Connection: close\r\n\r\n").end():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_unread_websocket_is_reset(serving, open_client, echo):
    """As uvicorn closes one whose client answers no ping, with frames unsent."""
    url = serving(window_seconds=0.2)
    told: list[Any] = []

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        told.append(scope)
        await send({"type": "websocket.send", "bytes": b"x" * 50_000_000})
        await send({"type": "websocket.close"})

    original = echo.__class__.__call__
    try:
        echo.__class__.__call__ = lambda self, scope, receive, send: (
            flood(scope, receive, send)
            if scope["type"] == "websocket"
            else original(self, scope, receive, send)
        )
        client = open_client(
            url,
            HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        client.hear(b"101")
        time.sleep(1.0)
        while not is_reset(client):
            time.sleep(0.1)
    finally:
        echo.__class__.__call__ = original
    assert told
    assert len(client.end()) < 50_000_000
