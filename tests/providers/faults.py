"""Faults of a provider: steps that write, pause, hang or break a connection.

A fault is a function from the request to steps: bytes to write, a `Pause`, or one of
`HANG`, `END` and `CUT`. The faults use the wire of the request's path, whole or
streamed as requested. `FAULTS` has them by name. `refused_port`, `deaf_port` and
`names` fail before a server is reached.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from testing import wires
from testing.http_server import WAIT_SECONDS, encode_chunk
from testing.wires import ScriptedAnswer


@dataclass(frozen=True)
class Pause:
    """Write nothing for a while."""

    seconds: float


@dataclass
class Request:
    """A request that the server received."""

    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: Any
    left: bool = False
    """Whether the client closed the connection before the fault was over."""

    @property
    def key(self) -> str:
        """Return the API key of the request."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key", bearer)


HANG: Literal["hang"] = "hang"
"""Write nothing more until the client disconnects or `server.release()`."""
END: Literal["end"] = "end"
"""Close the connection properly."""
CUT: Literal["cut"] = "cut"
"""Reset the connection."""

Step = bytes | Pause | Literal["hang", "end", "cut"]
Fault = Callable[[Request], Iterable[Step]]


def _fixed(*steps: Step) -> Fault:
    return lambda request: steps


def _streams(request: Request) -> bool:
    return isinstance(request.body, dict) and bool(request.body.get("stream"))


def _frames(request: Request, answer: ScriptedAnswer) -> list[bytes]:
    return wires.wire_of(request.path).frames(answer)


def _body(request: Request, answer: ScriptedAnswer) -> bytes:
    if _streams(request):
        return b"".join(_frames(request, answer))
    return wires.wire_of(request.path).whole(answer)


def _half(request: Request, answer: ScriptedAnswer) -> bytes:
    """Return a reply up to the end of its text."""
    if not _streams(request):
        body = _body(request, answer)
        return _whole(body)[: -len(body) // 2]
    wire = wires.wire_of(request.path)
    frames = wire.frames(answer)[: wire.lead + len(answer.pieces)]
    return _stream_head() + b"".join(map(encode_chunk, frames))


def _content_type(request: Request) -> str:
    return "text/event-stream" if _streams(request) else "application/json"


def _head(code: int, headers: dict[str, object]) -> bytes:
    lines = [f"HTTP/1.1 {code} Fault"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _stream_head() -> bytes:
    return _head(
        200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    )


def _whole(
    body: bytes, *, code: int = 200, content_type: str = "application/json", **more: str
) -> bytes:
    length = {"Content-Type": content_type, "Content-Length": len(body)}
    return _head(code, {**length, **more}) + body


# Faults of a reply.


def reply(*pieces: str) -> Fault:
    """Send a valid reply, one piece per token."""

    def steps(request: Request) -> Iterator[Step]:
        answer = ScriptedAnswer(pieces or ("Hello", " there"))
        if _streams(request):
            frames = _frames(request, answer)
            yield (
                _stream_head() + b"".join(map(encode_chunk, frames)) + encode_chunk(b"")
            )
        else:
            yield _whole(wires.wire_of(request.path).whole(answer))

    return steps


def status(code: int, message: str = "the server fails", **headers: object) -> Fault:
    """Answer with an HTTP status: `status(429, retry_after=2)`."""
    extra = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    body = orjson.dumps({"error": {"message": message, "type": "fault"}})
    return _fixed(_whole(body, code=code, **extra))


def split_status(code: int, body: dict[str, Any]) -> Fault:
    """Answer with a status whose body arrives in two pieces."""
    text = orjson.dumps(body)
    whole = _whole(text, code=code)
    return _fixed(whole[: -len(text) // 2], Pause(0.02), whole[-len(text) // 2 :])


def unexplained(code: int) -> Fault:
    """Answer with a status whose body never ends."""
    return _fixed(_whole(b"{" * 100, code=code)[:-50], HANG)


def silence(_request: Request) -> Iterator[Step]:
    """Read the request and send nothing."""
    yield HANG


def hang_up(_request: Request) -> Iterator[Step]:
    """Read the request and close the connection."""
    yield END


def reset(_request: Request) -> Iterator[Step]:
    """Read the request and reset the connection."""
    yield CUT


def slow_start(seconds: float, *pieces: str) -> Fault:
    """Start a valid stream, with a delay before the first token."""

    def steps(request: Request) -> Iterator[Step]:
        frames = _frames(request, ScriptedAnswer(pieces or ("Hello", " there")))
        yield _stream_head() + encode_chunk(frames[0])
        yield Pause(seconds)
        yield b"".join(map(encode_chunk, frames[1:])) + encode_chunk(b"")

    return steps


def stopped(how: Step, *pieces: str) -> Fault:
    """Send tokens, then stop: `stopped(HANG)`, `stopped(END)`, `stopped(CUT)`.

    A whole reply stops in the middle of its JSON.
    """

    def steps(request: Request) -> Iterator[Step]:
        answer = ScriptedAnswer(pieces or ("Hello", " there"))
        yield _half(request, answer)
        yield how

    return steps


def cut_length(request: Request) -> Iterator[Step]:
    """Close the connection before all announced bytes are sent."""
    answer = ScriptedAnswer(("Hello", " there"), unterminated=True)
    body = _body(request, answer)
    yield (
        _head(
            200,
            {
                "Content-Type": _content_type(request),
                "Content-Length": len(body) + 1000,
            },
        )
        + body
    )
    yield END


def unterminated(request: Request) -> Iterator[Step]:
    """End a stream without its terminating event."""
    answer = ScriptedAnswer(("Hello", " there"), unterminated=True)
    body = _body(request, answer)
    yield _stream_head() + encode_chunk(body) + encode_chunk(b"")


def half_json(request: Request) -> Iterator[Step]:
    """Send half a JSON object as a complete body."""
    body = wires.wire_of(request.path).whole(ScriptedAnswer())
    yield _whole(body[: len(body) // 2])


def half_event(request: Request) -> Iterator[Step]:
    """Stream an incomplete JSON event before the first token."""
    frame = _frames(request, ScriptedAnswer())[0].rstrip(b"\n")
    yield _stream_head() + encode_chunk(frame[:-10] + b"\n\n") + encode_chunk(b"")


def empty(request: Request) -> Iterator[Step]:
    """Send 200 and no body."""
    yield _whole(b"", content_type=_content_type(request))


def web_page(_request: Request) -> Iterator[Step]:
    """Send a web page, like a wrong address."""
    yield _whole(b"<html><body>Welcome!</body></html>", content_type="text/html")


def plain_text(_request: Request) -> Iterator[Step]:
    """Send plain text."""
    yield _whole(b"Hello there", content_type="text/plain")


def not_http(_request: Request) -> Iterator[Step]:
    """Answer in another protocol."""
    yield b"220 mail.test ESMTP ready\r\n"
    yield END


def slow_headers(seconds: float) -> Fault:
    """Send an endless head, byte by byte."""

    def steps(_request: Request) -> Iterator[Step]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Slow: "
        while True:
            yield b"x"
            yield Pause(seconds)

    return steps


def trickle(seconds: float) -> Fault:
    """Send a token, then meaningless bytes, one at a time, without end."""

    def steps(request: Request) -> Iterator[Step]:
        yield _half(request, ScriptedAnswer(("Hello", " there")))
        while True:
            yield encode_chunk(b":") if _streams(request) else b" "
            yield Pause(seconds)

    return steps


FAULTS: dict[str, Fault] = {
    "429": status(429),
    "429 with Retry-After": status(429, retry_after=1),
    "500": status(500),
    "503": status(503),
    "cut stream": stopped(CUT),
    "cut stream (Content-Length)": cut_length,
    "empty body": empty,
    "half a JSON": half_json,
    "no response": silence,
    "slow first token": slow_start(60),
    "stall in mid-stream": stopped(HANG),
    "stream without its end": unterminated,
    "wrong content type": web_page,
}
"""The faults of a reachable server."""


# Faults before the connection.


@contextlib.contextmanager
def refused_port() -> Iterator[int]:
    """Yield a port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """Yield a port whose connection queue is full, so it never answers."""
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


NOWHERE = "http://nowhere.invalid/v1"
"""An address whose name `names` resolves."""


@contextlib.contextmanager
def names(*, hang: bool = False) -> Iterator[None]:
    """Make names in `.invalid` unknown, or hang their lookup, without a network.

    Tests must not ask a real name server.
    """
    asked, ask = threading.Event(), socket.getaddrinfo

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not str(host).endswith(".invalid"):
            return ask(host, *args, **kwargs)
        if hang:
            asked.wait(WAIT_SECONDS)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    socket.getaddrinfo = look_up
    try:
        yield
    finally:
        socket.getaddrinfo = ask
        asked.set()
