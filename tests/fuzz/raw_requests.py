"""Requests as raw bytes, because HTTP clients would correct malformed ones."""

import http.client
import shlex
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

TIMEOUT_SECONDS = 15.0
MAX_READ_BYTES = 1_000_000
MAX_SHOWN_BYTES = 2000
"""Bytes of a request that a report shows."""

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request; `raw` is the whole request if its format is the attack."""

    name: str
    """The attack in this request."""
    method: str = "GET"
    target: str | bytes = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw: bytes | None = None
    operation: str = ""
    """The route, for the report."""
    may_close: bool = False
    """Whether the server may close the connection without a response."""
    has_credentials: bool = True
    """Whether to add the credentials of the server's mode."""

    @classmethod
    def build(
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

    def with_headers(self, headers: Mapping[str, str]) -> "Request":
        """Return the request with further headers; existing ones stay."""
        if self.raw is not None or not self.has_credentials:
            return self
        present = {name.lower() for name, _ in self.headers}
        added = [
            (name, value)
            for name, value in headers.items()
            if name.lower() not in present
        ]
        return replace(self, headers=(*self.headers, *added))

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
        present = {name.lower() for name, _ in self.headers}
        if "host" not in present:
            yield b"Host: 127.0.0.1:%d\r\n" % port
        for name, value in self.headers:
            yield f"{name}: {value}\r\n".encode("utf-8", "surrogatepass")
        if self.body and not present & {"content-length", "transfer-encoding"}:
            yield b"Content-Length: %d\r\n" % len(self.body)
        if "connection" not in present:
            yield b"Connection: close\r\n"

    def command(self, port: int) -> str:
        """Return a command that repeats the request, or the start of a long one."""
        whole = self.encoded(port)
        if len(whole) <= MAX_SHOWN_BYTES:
            return f"printf %b {shlex.quote(_printf(whole))} | nc 127.0.0.1 {port}"
        return f"{whole[:MAX_SHOWN_BYTES]!r} … {len(whole):,} bytes in total"


@dataclass(frozen=True)
class RawResponse:
    """A response; the status is 0 if the connection was closed without one."""

    status: int
    seconds: float
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def send(
    request: Request, port: int, *, seconds: float = TIMEOUT_SECONDS
) -> RawResponse:
    """Send a request on a connection of its own; raises `TimeoutError`."""
    started_at = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        # The server may refuse it before it is complete; the response has the reason.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.encoded(port))
        try:
            response = http.client.HTTPResponse(connection, method=request.method)
            response.begin()
            body = response.read(MAX_READ_BYTES)
        except (http.client.HTTPException, ConnectionError, ValueError):
            return RawResponse(0, time.monotonic() - started_at)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return RawResponse(response.status, time.monotonic() - started_at, headers, body)


def _escaped(target: str) -> bytes:
    """Return a target with escapes for bytes that would end its line."""
    encoded = target.encode("utf-8", "surrogatepass")
    return b"".join(
        bytes((byte,)) if 0x20 < byte < 0x7F else b"%%%02X" % byte for byte in encoded
    )


def _printf(text: bytes) -> str:
    """Return bytes in the format of `printf %b`."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\0{byte:03o}"
        for byte in text
    )
