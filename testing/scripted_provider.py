"""A provider that says what a test tells it to, over real HTTP.

    with FakeProvider() as fake:
        fake.reply("Hello", "!")                    # one piece per token
        fake.call_tool("add", {"a": 1, "b": 2})
        fake.fail(429, headers={"Retry-After": "0"})
        provider = fake.provider("openai")          # or fake.entry(...) for YAML
        ...
        assert fake.requests[-1].body["model"] == "gpt"

What is scripted is used up in order, one answer a request; after that every request
gets `fake.default`. Both wires are spoken, chosen by the path. Requests for vectors
have a script, a default and a list of their own:

        fake.embed(status=503)
        asked = EmbedWith.model_validate(fake.embed_with("voyage"))
        ...
        assert fake.embeddings[-1].body["input"] == ["Hello"]

The server runs in a thread of its own, so it serves synchronous tests too. No test
needs to sleep: `fake.wait(lambda: ...)` and `await fake.until(lambda: ...)` return as
soon as the condition holds.

`python -m testing.scripted_provider --port 9000 --tokens 50` serves benchmarks.
"""

import argparse
import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import orjson

from providers.embeddings import openai, voyage
from testing import wires
from testing.http_server import WAIT_SECONDS, FakeServer, encode_chunk, read_request
from testing.scripted_embeddings import ScriptedEmbedding
from testing.wires import FakeWire, ScriptedAnswer, StreamPoint

KEY = "sk-fake-0123456789"
DEFAULT_MODELS = {
    "openai": openai.DEFAULT_MODEL,
    "voyage": voyage.DEFAULT_MODEL,
}


@dataclass
class RecordedRequest:
    """A request the fake has seen."""

    method: str
    path: str
    headers: dict[str, str]
    """By their names in lower case."""
    body: Any
    aborted: bool = False
    """Whether the client left before the answer was complete."""
    answered: bool = False


class FakeProvider(FakeServer):
    """The server and its script."""

    key = KEY

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(port=port)
        self._talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._clear()

    def _clear(self) -> None:
        self._released = asyncio.Event()
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        """How many connections were opened."""
        self.default: ScriptedAnswer | Callable[[RecordedRequest], ScriptedAnswer] = (
            ScriptedAnswer()
        )
        """What unscripted requests get: an answer, or a function that makes it."""
        self.embeddings: list[RecordedRequest] = []
        """The requests for vectors, which are not among `requests`."""
        self.default_embedding = ScriptedEmbedding()
        self._embedding_script: deque[ScriptedEmbedding] = deque()
        self._script: deque[ScriptedAnswer] = deque()

    def embed_with(self, provider: str = "openai", **fields: Any) -> dict[str, Any]:
        """Return the YAML's `embed_with:` that leads here.

        With a model, as any address but the API's own needs one.
        """
        if provider in DEFAULT_MODELS:
            fields.setdefault("model", DEFAULT_MODELS[provider])
        here = {"api_key": KEY, "base_url": self.base_url}
        return {"provider": provider, **here, **fields}

    # What to say.

    def answer(self, answer: ScriptedAnswer) -> ScriptedAnswer:
        """Put an answer on the script."""
        self._script.append(answer)
        return answer

    def reply(self, *pieces: str, **fields: Any) -> ScriptedAnswer:
        """Say this text, one piece a token; `fields` are those of Answer."""
        return self.answer(ScriptedAnswer(pieces, **fields))

    def call_tool(
        self, name: str, arguments: Any = None, **fields: Any
    ) -> ScriptedAnswer:
        """Call a tool."""
        calls = [(name, {} if arguments is None else arguments)]
        return self.reply(tool_calls=calls, **fields)

    def fail(
        self,
        status: int,
        message: str = "the fake fails",
        *,
        headers: Mapping[str, str] | None = None,
        **error: Any,
    ) -> ScriptedAnswer:
        """Answer with an HTTP status; `error` are more fields of the error object."""
        body = {"error": {"message": message, "type": "fake_error", **error}}
        return self.raw(orjson.dumps(body), status=status, headers=headers or {})

    def raw(self, body: bytes | str, **fields: Any) -> ScriptedAnswer:
        """Answer with this body, JSON unless `content_type` says otherwise."""
        encoded = body.encode() if isinstance(body, str) else body
        fields.setdefault("content_type", "application/json")
        return self.answer(ScriptedAnswer(raw=encoded, **fields))

    def events(self, *data: Any, done: bool = True, **fields: Any) -> ScriptedAnswer:
        """Stream these chunks: objects become JSON, a str is sent as it is."""
        lines = [x if isinstance(x, str) else orjson.dumps(x).decode() for x in data]
        lines += ["[DONE]"] if done else []
        body = "".join(f"data: {line}\n\n" for line in lines)
        return self.raw(body, content_type="text/event-stream", **fields)

    def embed(self, **fields: Any) -> ScriptedEmbedding:
        """Answer a request for vectors; `fields` are those of VectorAnswer.

        `status`, `error`, `raw`, `hang`, `cut` and `pause_seconds` are as for others.
        """
        answer = ScriptedEmbedding(**fields)
        self._embedding_script.append(answer)
        return answer

    def hang(self, place: StreamPoint = "headers", *pieces: str) -> ScriptedAnswer:
        """Stop at a place until the client leaves or `release()` is called."""
        return self.answer(ScriptedAnswer(pieces or ("Hello", " there"), hang=place))

    def cut(self, place: StreamPoint = "headers", *pieces: str) -> ScriptedAnswer:
        """Drop the connection at a place."""
        return self.answer(ScriptedAnswer(pieces or ("Hello", " there"), cut=place))

    # What happened.

    @property
    def bodies(self) -> list[Any]:
        """Return the bodies of the requests so far."""
        return [request.body for request in self.requests]

    @property
    def is_idle(self) -> bool:
        """Return whether nobody is connected."""
        return not self._talks

    def reset(self) -> None:
        """Close every connection and drop requests, scripts and defaults.

        The address stays the same, so that a test can take over another's server.
        """
        done = asyncio.run_coroutine_threadsafe(self._reset(), self._loop)
        done.result(WAIT_SECONDS)

    async def _reset(self) -> None:
        # A connection that is just being accepted has its talk yet to come.
        await asyncio.sleep(0)
        while self._talks:
            pending = {*self._talks}
            self._cancel(pending)
            await asyncio.wait(pending)
            await asyncio.sleep(0)
        self._clear()

    # How it serves.

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _Connection(self._connected, self._loop),
            "127.0.0.1",
            self._port,
            backlog=1024,
        )

    def _cancel(self, pending: set[asyncio.Task[Any]]) -> None:
        for talk, writer in self._talks.items():
            talk.cancel()
            # A talk cancelled before its first step closes nothing itself.
            writer.transport.abort()

    def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        task = self._loop.create_task(self._handle_connection(reader, writer))
        self._talks[task] = writer
        task.add_done_callback(self._talks.pop)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while (read := await read_request(reader)) is not None:
                request = RecordedRequest(*read[0], read[1])
                seen = self.embeddings if _is_embedding(request) else self.requests
                self._update(partial(seen.append, request))
                if not await self._serve(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(
        self,
        request: RecordedRequest,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; return whether the connection is still good."""
        answer = self._next(request)
        try:
            if not answer.lingers:
                return await self._send_answer(request, answer, writer)
            return await self._answer_unless_disconnected(request, answer, writer)
        except ConnectionError:
            self._update(lambda: setattr(request, "aborted", True))
            return False

    async def _answer_unless_disconnected(
        self,
        request: RecordedRequest,
        answer: ScriptedAnswer,
        writer: asyncio.StreamWriter,
    ) -> bool:
        telling = asyncio.ensure_future(self._send_answer(request, answer, writer))
        connection = cast(_Connection, writer.transport.get_protocol())
        leaving = asyncio.ensure_future(connection.gone.wait())
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not telling.done():
                self._update(lambda: setattr(request, "aborted", True))
                return False
            return telling.result()
        finally:
            telling.cancel()
            leaving.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)

    def _next(self, request: RecordedRequest) -> ScriptedAnswer:
        if _is_embedding(request):
            script = self._embedding_script
            answer = script.popleft() if script else self.default_embedding
            return replace(answer, raw=answer.body(request.body))
        if self._script:
            return self._script.popleft()
        return self.default(request) if callable(self.default) else self.default

    async def _send_answer(
        self,
        request: RecordedRequest,
        answer: ScriptedAnswer,
        writer: asyncio.StreamWriter,
    ) -> bool:
        streams = isinstance(request.body, dict) and bool(request.body.get("stream"))
        wire = wires.wire_of(request.path)
        if answer.raw is not None or not streams:
            return await self._send_whole(request, answer, wire, writer)
        return await self._send_stream(request, answer, wire, writer)

    async def _send_whole(
        self,
        request: RecordedRequest,
        answer: ScriptedAnswer,
        wire: FakeWire,
        writer: asyncio.StreamWriter,
    ) -> bool:
        if not await self._apply_script("headers", answer, writer):
            return False
        await _pause(answer.pause_seconds)
        body = answer.raw if answer.raw is not None else wire.whole(answer)
        head = _response_head(
            answer, f"Content-Length: {len(body)}", "application/json"
        )
        if answer.cut or answer.hang:
            writer.write(head + body[: len(body) // 2])
            return await self._stop_in_body(answer, writer, body[len(body) // 2 :])
        writer.write(head + body)
        self._update(lambda: setattr(request, "answered", True))
        return True

    async def _stop_in_body(
        self, answer: ScriptedAnswer, writer: asyncio.StreamWriter, rest: bytes
    ) -> bool:
        await writer.drain()
        if not await self._apply_script(answer.cut or answer.hang, answer, writer):
            return False
        writer.write(rest)
        return True

    async def _send_stream(
        self,
        request: RecordedRequest,
        answer: ScriptedAnswer,
        wire: FakeWire,
        writer: asyncio.StreamWriter,
    ) -> bool:
        if not await self._apply_script("headers", answer, writer):
            return False
        first, *others = wire.frames(answer)
        head = _response_head(answer, "Transfer-Encoding: chunked", "text/event-stream")
        writer.write(head + encode_chunk(first))
        if not await self._apply_script("first_token", answer, writer):
            return False
        for number, frame in enumerate(others):
            await _pause(answer.pause_seconds)
            if number == wire.lead and not await self._apply_script(
                "mid_stream", answer, writer
            ):
                return False
            writer.write(encode_chunk(frame))
            if answer.pause_seconds:
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        self._update(lambda: setattr(request, "answered", True))
        return True

    async def _apply_script(
        self,
        place: StreamPoint | None,
        answer: ScriptedAnswer,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Apply the script at a point of the stream; return whether to go on."""
        if answer.hang == place:
            await writer.drain()
            await self._released.wait()
        if answer.cut == place:
            await writer.drain()
            writer.transport.abort()
            return False
        return True


class _Connection(asyncio.StreamReaderProtocol):
    """A connection that can be waited to end without reading from it."""

    def __init__(
        self,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(asyncio.StreamReader(loop=loop), connected, loop=loop)
        self.gone = asyncio.Event()

    def eof_received(self) -> bool | None:
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        super().connection_lost(exc)


def _is_embedding(request: RecordedRequest) -> bool:
    return request.path.endswith("/embeddings")


async def _pause(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)


def _response_head(answer: ScriptedAnswer, framing: str, content_type: str) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} Fake",
        f"Content-Type: {answer.content_type or content_type}",
        framing,
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def main() -> None:
    """Serve benchmarks until interrupted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--pause-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    fake = FakeProvider(port=arguments.port)
    fake.default = ScriptedAnswer(
        ["word "] * arguments.tokens, pause_seconds=arguments.pause_seconds
    )
    with fake:
        threading.Event().wait()


if __name__ == "__main__":
    main()
