"""Slow clients, disconnects and too many connections."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.processes.http_server.conftest import HEAD, POST, SECONDS, Client

# Requests that do not arrive.


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_disconnect_reaches_the_running_request(
    serving, open_client, echo, caplog, count
):
    client = open_client(serving())
    client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n" * count)
    assert echo.started.wait(SECONDS)

    client.socket.close()

    assert echo.disconnected.wait(SECONDS)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_incomplete_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2), HEAD)
    assert client.refusal() == (408, "request_timeout")


def test_slowly_sent_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2, linger_seconds=0.2), HEAD)
    while client.send(b"X: a\r\n"):
        time.sleep(0.01)
    assert client.read_all() in (b"", client.received)


def test_silent_connection_is_closed_without_an_answer(serving, open_client):
    assert open_client(serving(head_seconds=0.2)).read_all() == b""


def test_idle_keep_alive_connection_is_closed(serving, open_client):
    client = open_client(serving(idle_seconds=0.2), HEAD + b"\r\n")
    client.read_until(b"}")
    assert client.read_all() == client.received


def test_empty_lines_do_not_keep_a_connection_alive(serving, open_client):
    client = open_client(serving(idle_seconds=0.2), HEAD + b"\r\n")
    client.read_until(b"}")
    while client.send(b"\r\n"):
        time.sleep(0.01)
    assert not client.send(b"\r\n")


def test_incomplete_second_head_times_out(serving, open_client):
    client = open_client(serving(head_seconds=0.2, idle_seconds=30), HEAD + b"\r\n")
    client.read_until(b"}")
    client.send(HEAD)
    assert b"HTTP/1.1 408" in client.read_all()


def test_incomplete_body_times_out(serving, open_client, echo):
    url = serving(body_seconds=0.2)
    client = open_client(url, POST + b"Content-Length: 30\r\n\r\nabc")
    assert client.refusal() == (408, "request_timeout")
    assert echo.disconnected.wait(SECONDS)


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
    client.read_until(b'"size": 30000')


def test_client_is_not_timed_out_by_an_unread_body(serving, open_client, echo):
    url = serving(body_seconds=0.1, window_seconds=0.1, body_bytes_per_second=10**9)
    echo.gate.clear()
    client = open_client(url, POST + b"Content-Length: 4000000\r\n\r\n")
    upload = threading.Thread(target=client.send, args=(b"x" * 4_000_000,))
    upload.start()
    waiting = open_client(
        url, POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    )
    time.sleep(0.5)  # Several times the limit of each.
    echo.gate.set()
    waiting.read_until(b"100 Continue")
    waiting.send(b"abc")
    waiting.read_until(b'"size": 3')
    client.read_until(b'"size": 4000000')
    upload.join()
    assert waiting.received.count(b" 200 ") == client.received.count(b" 200 ") == 1


def test_unread_answer_times_out(serving, open_client):
    url = serving(idle_seconds=0.1, window_seconds=0.3)
    client = open_client(url, b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
    client.read_until(b"200")
    # Read nothing more until the server has reset the connection.
    time.sleep(1.0)
    while not is_reset(client):
        time.sleep(0.1)
    assert len(client.read_all()) < 50_000_000


def is_reset(client: Client) -> bool:
    return bool(client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) or (
        not client.send(b"\r\n")
    )


def test_slowly_read_answer_is_complete(serving, open_client):
    url = serving(idle_seconds=0.1, window_seconds=1.0)
    client = open_client(url, b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
    while len(client.received) < 50_000_000:
        piece = client.socket.recv(2_000_000)
        assert piece
        client.received += piece
        time.sleep(0.02)


def test_honest_clients_are_served_while_slow_ones_end(serving, open_client):
    url = serving(head_seconds=0.3, linger_seconds=0.1)
    slow = [open_client(url, HEAD) for _ in range(50)]
    with connect(url.replace("http", "ws")) as ws:
        for client in slow:
            assert client.refusal()[0] == 408
        ws.send("still here")
        honest = open_client(url, HEAD + b"\r\n")
        honest.read_until(b"200")
        ws.ping().wait(SECONDS)


# Connections that are too many.


def test_connection_over_the_limit_is_answered_503(serving, open_client, caplog):
    url = serving(max_connections=2, linger_seconds=SECONDS)
    open_clients = [open_client(url, HEAD + b"\r\n") for _ in range(2)]
    for client in open_clients:
        client.read_until(b"200")
    for _ in range(5):
        client = open_client(url, HEAD + b"\r\n")
        assert client.refusal() == (503, "too_many_connections")
        assert b"\r\nretry-after: 2\r\n" in client.received
    assert caplog.text.count("connections refused") == 1


def test_liveness_is_answered_over_the_limit(serving, open_client):
    url = serving(max_connections=1, linger_seconds=SECONDS)
    open_client(url, HEAD + b"\r\n").read_until(b"200")
    client = open_client(url, b"GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n")
    client.read_until(b"200")
    assert b"\r\nconnection: close\r\n" in client.read_all()


def test_connection_over_the_limit_has_a_shorter_timeout(serving, open_client):
    url = serving(max_connections=1, linger_seconds=0.2)
    open_client(url, HEAD + b"\r\n").read_until(b"200")
    assert open_client(url, HEAD).refusal() == (408, "request_timeout")


def test_connections_over_the_reserve_are_closed(serving, open_client):
    url = serving(max_connections=1, reserve=2, linger_seconds=SECONDS)
    open_client(url, HEAD + b"\r\n").read_until(b"200")
    waiting = [open_client(url, HEAD) for _ in range(2)]
    assert open_client(url).read_all() == b""
    for client in waiting:
        client.send(b"\r\n")
        assert client.refusal()[0] == 503


def test_websocket_counts_until_it_closes(serving, open_client):
    url = serving(max_connections=1, linger_seconds=SECONDS)
    with connect(url.replace("http", "ws")):
        assert open_client(url, HEAD + b"\r\n").refusal()[0] == 503
    until_served(url, open_client)


def until_served(url: str, open_client: Callable[..., Client]) -> None:
    """Wait until the server accepts a connection again."""
    deadline = time.monotonic() + SECONDS
    while (
        b"200" not in open_client(url, HEAD + b"Connection: close\r\n\r\n").read_all()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_unread_websocket_is_reset(serving, open_client, echo):
    """As when uvicorn closes a WebSocket whose client answers no ping."""
    url = serving(window_seconds=0.2)
    scopes: list[Any] = []

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        scopes.append(scope)
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
        client.read_until(b"101")
        time.sleep(1.0)
        while not is_reset(client):
            time.sleep(0.1)
    finally:
        echo.__class__.__call__ = original
    assert scopes
    assert len(client.read_all()) < 50_000_000


UPGRADES = {
    "h2c": b"Connection: HTTP2-Settings, Upgrade\r\nUpgrade: h2c\r\n",
    "two connections": b"Connection: upgrade\r\nUpgrade: h2c\r\nConnection: x\r\n",
    "websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_unavailable_upgrade_is_ignored(serving, open_client, upgrade, framing):
    length = b"Content-Length: 5\r\n\r\nhello"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    request = POST + UPGRADES[upgrade] + (length if framing == "length" else chunks)
    client = open_client(serving())
    # In pieces: of the body in one piece with the headers, and of the next request.
    for piece in (request, request[:-9], request[-9:]):
        client.received = b""
        client.send(piece)
        if piece != request[:-9]:
            client.read_until(b"}")
            assert client.received.startswith(b"HTTP/1.1 200")
            answer = json.loads(client.received.partition(b"\r\n\r\n")[2])
            assert answer["size"] == 5
            assert "upgrade" not in answer["headers"]
