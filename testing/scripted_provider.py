"""A scripted provider for tests, over real HTTP.

    with FakeProvider() as fake:
        fake.reply("Hello", "!")                    # one piece per token
        fake.call_tool("add", {"a": 1, "b": 2})
        fake.fail(429, headers={"Retry-After": "0"})
        provider = fake.provider("openai")          # or fake.entry(...) for YAML
        ...
        assert fake.requests[-1].body["model"] == "gpt"

Each request uses up one scripted answer, in order; further requests get `fake.default`.
The path selects OpenAI's or Anthropic's API. Requests for embeddings have a separate
script, default and list:

        fake.embed(status=503)
        embed_with = EmbedderConfig.model_validate(fake.embed_with("voyage"))
        ...
        assert fake.embeddings[-1].body["input"] == ["Hello"]

A request for a key of the Realtime API gets one for the session that it describes, if
no answer is scripted.

The server runs in a separate thread, so it serves synchronous tests too. Tests need not
sleep: `fake.wait(lambda: ...)` and `await fake.until(lambda: ...)` return as soon as
the condition holds.

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
from testing import scripted_realtime, wires
from testing.answer_writer import AnswerWriter
from testing.http_server import WAIT_SECONDS, FakeServer, read_request
from testing.scripted_embeddings import ScriptedEmbedding
from testing.wires import ScriptedAnswer, StreamPoint

KEY = "sk-fake-0123456789"
DEFAULT_MODELS = {"openai": openai.DEFAULT_MODEL, "voyage": voyage.DEFAULT_MODEL}


@dataclass
class RecordedRequest:
    """A request that the fake received."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: Any
    aborted: bool = False
    """Whether the client left before the answer was complete."""
    answered: bool = False


class FakeProvider(FakeServer):
    """The server and its script."""

    key = KEY

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(port=port)
        self._handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._clear()

    def _clear(self) -> None:
        self._released = asyncio.Event()
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        """The number of connections opened."""
        self.default: ScriptedAnswer | Callable[[RecordedRequest], ScriptedAnswer] = (
            ScriptedAnswer()
        )
        """The answer to unscripted requests, or a function that returns it."""
        self.embeddings: list[RecordedRequest] = []
        """The requests for embeddings, which are not in `requests`."""
        self.default_embedding = ScriptedEmbedding()
        self._embedding_script: deque[ScriptedEmbedding] = deque()
        self._script: deque[ScriptedAnswer] = deque()

    def embed_with(self, provider: str = "openai", **fields: Any) -> dict[str, Any]:
        """Return an `embed_with:` of the YAML with this address.

        It has a model, which any address but the API's own requires.
        """
        if provider in DEFAULT_MODELS:
            fields.setdefault("model", DEFAULT_MODELS[provider])
        access = {"api_key": KEY, "base_url": self.base_url}
        return {"provider": provider, **access, **fields}

    # The script.

    def answer(self, answer: ScriptedAnswer) -> ScriptedAnswer:
        self._script.append(answer)
        return answer

    def reply(self, *pieces: str, **fields: Any) -> ScriptedAnswer:
        """Answer with text, one piece per token; `fields` as in `ScriptedAnswer`."""
        return self.answer(ScriptedAnswer(pieces, **fields))

    def call_tool(
        self, name: str, arguments: Any = None, **fields: Any
    ) -> ScriptedAnswer:
        """Answer with a tool call."""
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
        """Answer with an HTTP status, and more fields of the error object."""
        body = {"error": {"message": message, "type": "fake_error", **error}}
        return self.raw(orjson.dumps(body), status=status, headers=headers or {})

    def raw(self, body: bytes | str, **fields: Any) -> ScriptedAnswer:
        """Answer with this body, by default as JSON."""
        encoded = body.encode() if isinstance(body, str) else body
        fields.setdefault("content_type", "application/json")
        return self.answer(ScriptedAnswer(raw=encoded, **fields))

    def events(self, *data: Any, done: bool = True, **fields: Any) -> ScriptedAnswer:
        """Stream these chunks: objects as JSON, a str unchanged."""
        lines = [x if isinstance(x, str) else orjson.dumps(x).decode() for x in data]
        lines += ["[DONE]"] if done else []
        body = "".join(f"data: {line}\n\n" for line in lines)
        return self.raw(body, content_type="text/event-stream", **fields)

    def embed(self, **fields: Any) -> ScriptedEmbedding:
        """Answer a request for embeddings; `fields` are those of `ScriptedEmbedding`.

        `status`, `error`, `raw`, `hang`, `cut` and `pause_seconds` work as for chats.
        """
        answer = ScriptedEmbedding(**fields)
        self._embedding_script.append(answer)
        return answer

    def hang(self, point: StreamPoint = "headers", *pieces: str) -> ScriptedAnswer:
        """Stop at a point until the client leaves or `release()` is called."""
        return self.answer(ScriptedAnswer(pieces or ("Hello", " there"), hang=point))

    def cut(self, point: StreamPoint = "headers", *pieces: str) -> ScriptedAnswer:
        """Drop the connection at a point."""
        return self.answer(ScriptedAnswer(pieces or ("Hello", " there"), cut=point))

    # The requests.

    @property
    def bodies(self) -> list[Any]:
        """Return the bodies of the requests so far."""
        return [request.body for request in self.requests]

    @property
    def is_idle(self) -> bool:
        """Return whether no client is connected."""
        return not self._handlers

    def reset(self) -> None:
        """Close every connection and drop requests, scripts and defaults.

        The address stays the same, so several tests can use one server.
        """
        done = asyncio.run_coroutine_threadsafe(self._reset(), self._loop)
        done.result(WAIT_SECONDS)

    async def _reset(self) -> None:
        # A connection that is being accepted has no handler yet.
        await asyncio.sleep(0)
        while self._handlers:
            pending = {*self._handlers}
            self._cancel(pending)
            await asyncio.wait(pending)
            await asyncio.sleep(0)
        self._clear()

    # The server.

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _Connection(self._connected, self._loop),
            "127.0.0.1",
            self._port,
            backlog=1024,
        )

    def _cancel(self, pending: set[asyncio.Task[Any]]) -> None:
        for handler, writer in self._handlers.items():
            handler.cancel()
            # A handler cancelled before its first step does not close it.
            writer.transport.abort()

    def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        task = self._loop.create_task(self._handle_connection(reader, writer))
        self._handlers[task] = writer
        task.add_done_callback(self._handlers.pop)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while (read := await read_request(reader)) is not None:
                request = RecordedRequest(*read[0], read[1])
                log = self.embeddings if _is_embedding(request) else self.requests
                self._update(partial(log.append, request))
                if not await self._serve(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(
        self, request: RecordedRequest, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; return whether the connection stays usable."""
        answer = self._next(request)
        try:
            if not answer.is_slow:
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
        sending = asyncio.ensure_future(self._send_answer(request, answer, writer))
        connection = cast(_Connection, writer.transport.get_protocol())
        disconnect = asyncio.ensure_future(connection.disconnected.wait())
        try:
            await asyncio.wait(
                {sending, disconnect}, return_when=asyncio.FIRST_COMPLETED
            )
            if not sending.done():
                self._update(lambda: setattr(request, "aborted", True))
                return False
            return sending.result()
        finally:
            sending.cancel()
            disconnect.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)

    def _next(self, request: RecordedRequest) -> ScriptedAnswer:
        if _is_embedding(request):
            script = self._embedding_script
            answer = script.popleft() if script else self.default_embedding
            return replace(answer, raw=answer.body(request.body))
        if self._script:
            return self._script.popleft()
        if request.path.endswith("/realtime/client_secrets"):
            return scripted_realtime.answer(request.body)
        return self.default(request) if callable(self.default) else self.default

    async def _send_answer(
        self,
        request: RecordedRequest,
        answer: ScriptedAnswer,
        writer: asyncio.StreamWriter,
    ) -> bool:
        body, wire = request.body, wires.wire_of(request.path)
        is_streamed = isinstance(body, dict) and bool(body.get("stream"))
        answer_writer = AnswerWriter(answer, wire, writer, self._released)
        is_usable = await answer_writer.write(is_streamed=is_streamed)
        if answer_writer.is_complete:
            self._update(lambda: setattr(request, "answered", True))
        return is_usable


class _Connection(asyncio.StreamReaderProtocol):
    """A connection whose end can be awaited without reading from it."""

    def __init__(
        self,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(asyncio.StreamReader(loop=loop), connected, loop=loop)
        self.disconnected = asyncio.Event()

    def eof_received(self) -> bool | None:
        self.disconnected.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.disconnected.set()
        super().connection_lost(exc)


def _is_embedding(request: RecordedRequest) -> bool:
    return request.path.endswith("/embeddings")


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
