"""Malformed and oversized requests."""

import json
import logging
import socket

import pytest

from tests.processes.http_server.conftest import CHUNKED, HEAD, POST, SECONDS

LINES = b"".join(b"X-%d: a\r\n" % number for number in range(99))
REFUSED = {
    "two hosts": (HEAD + b"Host: other\r\n\r\n", 400, "host_repeated"),
    "the same host twice": (HEAD + b"hOST: test\r\n\r\n", 400, "host_repeated"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "host_missing"),
    "a long host": (
        b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * 256),
        400,
        "host_too_long",
    ),
    "101 lines": (HEAD + LINES + b"X: a\r\n\r\n", 431, "too_many_headers"),
    "many lines without an end": (HEAD + b"X: a\r\n" * 5000, 431, "too_many_headers"),
    "a large header": (
        HEAD + b"X: %b\r\n\r\n" % (b"x" * 65536),
        431,
        "headers_too_large",
    ),
    "a header without an end": (HEAD + b"X: " + b"x" * 500_000, 431, "headers_too_la"),
    "blank lines without an end": (b"\r\n" * 250_000, 431, "headers_too_large"),
    "a name without an end": (HEAD + b"x" * 500_000, 431, "headers_too_large"),
    "a long target": (
        b"GET /%b HTTP/1.1\r\nHost: test\r\n\r\n" % (b"x" * 16384),
        414,
        "url_too_long",
    ),
    "a target without an end": (b"GET /" + b"x" * 500_000, 431, "headers_too_large"),
    "a folded line": (HEAD + b"X: a\r\n b\r\n\r\n", 400, "malformed_request"),
    "a line before the first": (
        b"GET / HTTP/1.1\r\n Host: test\r\n\r\n",
        400,
        "malformed_request",
    ),
    "two lengths": (
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
        "malformed_request",
    ),
    "a length twice": (
        POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        400,
        "malformed_request",
    ),
    "a list of lengths": (
        POST + b"Content-Length: 1, 1\r\n\r\na",
        400,
        "malformed_request",
    ),
    "a length and chunks": (
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "malformed_request",
    ),
    "an unknown coding": (
        POST + b"Transfer-Encoding: gzip\r\n\r\nab",
        400,
        "malformed_request",
    ),
    "a huge length": (
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        400,
        "malformed_request",
    ),
    "an invalid chunk": (CHUNKED + b"zz\r\n", 400, "malformed_request"),
    "a blank before the colon": (HEAD + b"X : a\r\n\r\n", 400, "malformed_request"),
    "NUL": (HEAD + b"X: a\0b\r\n\r\n", 400, "malformed_request"),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"),
    "bytes in the target": (
        b"GET /\xff HTTP/1.1\r\nHost: test\r\n\r\n",
        400,
        "malformed_request",
    ),
    "a tunnel": (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed_request"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "malformed_request"),
    "many trailers": (
        CHUNKED + b"1\r\na\r\n0\r\n" + b"X: a\r\n" * 5000,
        431,
        "too_many_headers",
    ),
    "an extension of a chunk without an end": (
        CHUNKED + b"1;" + b"x" * 9_000_000,
        413,
        "body_too_large",
    ),
    "a trailer without an end": (
        CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 9_000_000,
        413,
        "body_too_large",
    ),
}


@pytest.mark.parametrize(("sent", "status", "code"), REFUSED.values(), ids=REFUSED)
def test_malformed_request_is_refused_as_json(serving, open_client, sent, status, code):
    client = open_client(serving(linger_seconds=SECONDS), sent)
    client.socket.shutdown(socket.SHUT_WR)
    refused, named = client.refusal()
    assert (refused, named.startswith(code)) == (status, True), named


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
    client.read_until(b"\r\n")
    assert client.received.startswith(b"HTTP/1.1 200")


def test_websocket_with_two_hosts_is_refused(serving, open_client):
    client = open_client(
        serving(),
        HEAD + b"Host: other\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n",
    )
    assert client.refusal() == (400, "host_repeated")


def test_trailers_do_not_become_headers(serving, open_client):
    client = open_client(serving(), CHUNKED + b"1\r\na\r\n0\r\nHost: other\r\n\r\n")
    client.read_until(b"}")
    request = json.loads(client.received.partition(b"\r\n\r\n")[2])
    assert request["headers"] == ["host", "transfer-encoding"]


def test_slowly_sent_headers_are_limited(serving, open_client):
    client = open_client(serving(), HEAD)
    # In small pieces that never complete a line.
    while client.send(b"x" * 20_000):
        pass
    assert (
        b"431" in client.read_all() or not client.received
    )  # A reset may lose the response.


def test_malformed_requests_are_one_line_in_the_log(serving, open_client, caplog):
    url = serving()
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            assert open_client(url, b"nonsense\r\n\r\n").refusal()[0] == 400
    assert caplog.text.count("malformed requests") == 1


def test_pipelined_requests_are_limited(serving, open_client, echo):
    url = serving()
    few = open_client(url, (HEAD + b"\r\n") * 5)
    few.read_until(b"200")
    while few.received.count(b"HTTP/1.1 200") < 5:
        few.received += few.socket.recv(65536)
    echo.gate.clear()
    many = open_client(url, (HEAD + b"\r\n") * 1000)
    assert many.read_all() == b""
