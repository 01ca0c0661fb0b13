"""Malformed requests: bodies, methods, headers, and HTTP itself."""

from collections.abc import Iterator
from itertools import chain

from tests.fuzz.raw_requests import Request

KB = 1024


def attacks() -> Iterator[Request]:
    """Yield all malformed requests."""
    yield from chain(_bodies(), _headers(), _shapes(), _sockets())


def _bodies() -> Iterator[Request]:
    kind = [("Content-Type", "application/json")]
    for path in (
        "/v1/chat/completions",
        "/v1/memories",
        "/v1/tasks",
        "/mcp",
        "/v1/feedback",
    ):
        for body in (
            b"",
            b"{",
            b"\xff",
            b"null",
            b"[]",
            b"1",
            b"NaN",
            b'{"a": 1e999}',
            b'{"a": "\\ud800"}',
            b'{"a": "\\u0000"}',
            b'{"a": 1' + b"0" * 5000 + b"}",
            b"[" * 100_000,
            b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
            b'{"a": 1, "a": 2}',
            b"\xef\xbb\xbf{}",
            b" " * 1_000_000,
            b"x" * (3 * KB * KB),
        ):
            yield Request.build(
                "a body", "POST", path, headers=kind, body=body, operation=path
            )
        for content_type in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "a" * 300,
            "é",
        ):
            named = [("Content-Type", content_type)]
            yield Request.build(
                "a type", "POST", path, headers=named, body=b"{}", operation=path
            )
    for method in (
        "OPTIONS",
        "HEAD",
        "PUT",
        "PATCH",
        "DELETE",
        "TRACE",
        "CONNECT",
        "FOO",
    ):
        for path in ("/", "/v1/models", "/v1/chat/completions", "/mcp", "/health/live"):
            yield Request.build("a method", method, path, operation=path)


def _headers() -> Iterator[Request]:
    for target in ("/v1/models", "/admin/", "/health/live"):
        for headers in (
            [(f"X-{number}", "a") for number in range(1000)],
            [("X-Long", "a" * 60 * KB)],
            [("X-Longer", "a" * 1000 * KB)],
            [("Cookie", "a=b; " * 12 * KB)],
            [("Host", "a"), ("Host", "b")],
            [("Host", "a" * 60 * KB)],
            [("Host", "")],
            [("Host", "a b")],
            [("Host", "127.0.0.1:999999")],
            [("Host", "[::1")],
            [("X-Request-ID", "a" * 60 * KB)],
            [("X-Forwarded-For", "1.2.3.4, " * 6 * KB)],
            [("Accept", "text/html," * 6 * KB)],
            [("Accept-Encoding", "gzip;q=" * 8 * KB)],
            [("Content-Type", 'a/b; x="' + ";" * 60 * KB)],
            [("Content-Type", "application/json; charset*=nonsense'en'x")],
            [("Content-Type", "a/b; charset=" + "x" * 200)],
            [("Expect", "100-continue")],
            [("Upgrade", "h2c"), ("Connection", "Upgrade, HTTP2-Settings")],
        ):
            yield Request(
                f"the header {headers[0][0]}",
                target=target,
                headers=tuple(headers),
                operation=target,
                may_close=True,
            )


RAW = {
    "no host": b"GET /v1/models HTTP/1.1\r\n\r\n",
    "HTTP/1.0": b"GET /v1/models HTTP/1.0\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\x00" * 200,
    "two lengths": b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    "length and chunks": b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "a negative length": b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\n"
    b"Content-Length: -1\r\n\r\n{}",
    "a huge length": b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\n"
    b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "chunks of nothing": b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "a folded header": b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-A: a\r\n b\r\n\r\n",
    "a space before a colon": b"GET /v1/models HTTP/1.1\r\nHost : a\r\n\r\n",
    "a NUL in a header": b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-A: \x00\r\n\r\n",
    "bytes in a path": b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "a bad escape": b"GET /v1/%zz%?a=%zz%f HTTP/1.1\r\nHost: a\r\n\r\n",
    "a surrogate in a path": b"GET /admin/%ED%A0%80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an address as target": b"GET http://a/admin/ HTTP/1.1\r\nHost: b\r\n\r\n",
    "dots": b"GET /v1/../admin/%2e%2e/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /v1/models#a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target of stars": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "pipelined": b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n" * 200,
}


def _shapes() -> Iterator[Request]:
    for name, raw in RAW.items():
        if b"Transfer-Encoding" not in raw:
            # Otherwise the server, and so the client, waits for the next request.
            raw = raw.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        yield Request(name, raw=raw, operation="a shape of HTTP", may_close=True)


def _sockets() -> Iterator[Request]:
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
    key = {
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for path in ("/admin/live/events?q=%00", "/v1/models", "/admin/live/events/x"):
        for headers in (
            {**upgrade, **key, "Origin": "http://elsewhere.example"},
            {**upgrade, "Sec-WebSocket-Version": "99"},
            {**upgrade, **key, "Sec-WebSocket-Protocol": "a" * 8000},
        ):
            request = Request.build("a websocket", "GET", path, headers=headers.items())
            yield Request(
                request.name,
                target=request.target,
                headers=request.headers,
                operation="a websocket",
                may_close=True,
            )
