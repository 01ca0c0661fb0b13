"""A provider with canned replies, as cheap and steady as Python allows.

`python -m bench.provider` prints its port and serves OpenAI's API until its standard
input ends. The request's `model` selects the reply: `reply` is a whole reply at once;
`tool` calls the first tool, and replies after its result; `judge` scores eight of ten;
`stream-150-20` streams 150 tokens, one every 20 ms. `GET /last` returns the body of the
last call.
"""

import asyncio
import json
import re
import sys
import threading

import uvloop

TOKENS = 30
TOKEN = "word "
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
STREAM = re.compile(rb'"model":"stream-(\d+)-(\d+)"')
TOOL = b'"model":"tool"'
JUDGE = b'"model":"judge"'
USAGE = {"prompt_tokens": 700, "completion_tokens": TOKENS, "total_tokens": 730}
HEAD = {"id": "chatcmpl-bench", "created": 1, "model": "canned"}


def _response(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def _chunk(choices: list[object], **fields: object) -> bytes:
    body = {**HEAD, "object": "chat.completion.chunk", "choices": choices, **fields}
    frame = b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(frame), frame)


def _delta(delta: dict[str, str], reason: str | None = None) -> bytes:
    return _chunk([{"index": 0, "delta": delta, "finish_reason": reason}])


def _whole(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    fields = {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    return _response(json.dumps({**HEAD, **fields}, separators=(",", ":")).encode())


WHOLE = _whole(TOKEN * TOKENS)
VERDICT = _whole('{"quality": {"score": 8, "reasoning": "It will do."}}')
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
FIRST = STREAM_HEAD + _delta({"role": "assistant", "content": TOKEN})
NEXT = _delta({"content": TOKEN})
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
LAST = _delta({}, "stop") + _chunk([], usage=USAGE) + END


def _call(body: bytes) -> bytes:
    """Return a call of the first tool, or the reply if the request has its result."""
    request = json.loads(body)
    if request["messages"][-1]["role"] == "tool":
        return WHOLE
    name = request["tools"][0]["function"]["name"]
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    fields = {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    return _response(json.dumps({**HEAD, **fields}, separators=(",", ":")).encode())


def _reply(body: bytes) -> bytes:
    if JUDGE in body:
        return VERDICT
    return _call(body) if TOOL in body else WHOLE


class CannedProvider(asyncio.Protocol):
    """One connection of a client."""

    last = b"{}"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        declared = LENGTH.search(received, 0, end)
        size = int(declared[1]) if declared else 0
        if len(received) < end + size:
            return
        self._received = received[end + size :]
        self._respond(received[end : end + size])

    def _respond(self, body: bytes) -> None:
        if not body:
            self._transport.write(_response(CannedProvider.last))
            return
        CannedProvider.last = body
        stream = STREAM.search(body)
        if stream is None:
            self._transport.write(_reply(body))
            return
        self._transport.write(FIRST)
        self._remaining = int(stream[1]) - 1
        self._interval = int(stream[2]) / 1000
        self._due = self._loop.time()
        self._schedule()

    def _schedule(self) -> None:
        self._due += self._interval
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        if self._remaining:
            self._remaining -= 1
            self._transport.write(NEXT)
            self._schedule()
        else:
            self._transport.write(LAST)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: CannedProvider(loop), "127.0.0.1", 0, backlog=1024
    )
    is_stopping = asyncio.Event()
    threading.Thread(
        target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(is_stopping.set)),
        daemon=True,
    ).start()
    print(server.sockets[0].getsockname()[1], flush=True)
    await is_stopping.wait()


if __name__ == "__main__":
    uvloop.run(serve())
