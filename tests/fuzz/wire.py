"""Requests as bytes, sent as they are: no client mends what an attacker writes."""

import http.client
import shlex
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

ANSWER_SECONDS = 15.0
MOST_READ = 1_000_000
MOST_SHOWN = 2000
"""Bytes of a request that a report repeats."""

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request; `raw` is the whole of it where even its shape is an attack."""

    name: str
    """What is wrong with it."""
    method: str = "GET"
    target: str | bytes = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw: bytes | None = None
    operation: str = ""
    """The route, for the report."""
    may_close: bool = False
    """Whether the server may hang up without a word."""
    is_known: bool = True
    """Whether it carries the credentials of the server's mode."""

    @classmethod
    def of(
        cls,
        name: str,
        method: str,
        target: str | bytes,
        *,
        headers: Headers = (),
        body: bytes | str = b"",
        operation: str = "",
    ) -> Self:
        """Return a request; a text is sent as UTF-8."""
        encoded = body if isinstance(body, bytes) else body.encode()
        return cls(name, method, target, tuple(headers), encoded, operation=operation)

    def known_by(self, headers: Mapping[str, str]) -> "Request":
        """Return the request with the headers that open its address."""
        if self.raw is not None or not self.is_known:
            return self
        said = {name.lower() for name, _ in self.headers}
        more = [each for each in headers.items() if each[0].lower() not in said]
        return replace(self, headers=(*self.headers, *more))

    def encoded(self, port: int) -> bytes:
        """Return the bytes to send."""
        if self.raw is not None:
            return self.raw.replace(b"{port}", b"%d" % port)
        return b"%s %s HTTP/1.1\r\n%s\r\n%s" % (
            self.method.encode(),
            self.target if isinstance(self.target, bytes) else _escaped(self.target),
            b"".join(self._lines(port)),
            self.body,
        )

    def _lines(self, port: int) -> Iterable[bytes]:
        said = {name.lower() for name, _ in self.headers}
        if "host" not in said:
            yield b"Host: 127.0.0.1:%d\r\n" % port
        for name, value in self.headers:
            yield f"{name}: {value}\r\n".encode("utf-8", "surrogatepass")
        if self.body and not said & {"content-length", "transfer-encoding"}:
            yield b"Content-Length: %d\r\n" % len(self.body)
        if "connection" not in said:
            yield b"Connection: close\r\n"

    def command(self, port: int) -> str:
        """Return a command that sends the request again, or its beginning."""
        whole = self.encoded(port)
        if len(whole) <= MOST_SHOWN:
            return f"printf %b {shlex.quote(_printf(whole))} | nc 127.0.0.1 {port}"
        return f"{whole[:MOST_SHOWN]!r} … {len(whole):,} bytes in all"


@dataclass(frozen=True)
class Answer:
    """What came back; status 0 where the connection closed without an answer."""

    status: int
    seconds: float
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def send(request: Request, port: int, *, seconds: float = ANSWER_SECONDS) -> Answer:
    """Send a request on a connection of its own; raises `TimeoutError`."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        # It may be refused before it is sent whole: the answer says why.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.encoded(port))
        try:
            response = http.client.HTTPResponse(connection, method=request.method)
            response.begin()
            body = response.read(MOST_READ)
        except (http.client.HTTPException, ConnectionError, ValueError):
            return Answer(0, time.monotonic() - begun)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, time.monotonic() - begun, headers, body)


def _escaped(target: str) -> bytes:
    """Return a target as it goes over the wire: what breaks its line is escaped."""
    encoded = target.encode("utf-8", "surrogatepass")
    return b"".join(
        bytes((byte,)) if 0x20 < byte < 0x7F else b"%%%02X" % byte for byte in encoded
    )


def _printf(text: bytes) -> str:
    """Return bytes as `printf %b` reads them."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\0{byte:03o}"
        for byte in text
    )
