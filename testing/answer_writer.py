"""Write scripted answers to connections, with their pauses, hangs and cuts."""

import asyncio

from testing.http_server import encode_chunk
from testing.wires import FakeWire, ScriptedAnswer, StreamPoint


class AnswerWriter:
    """Writes one answer; `released` lets hanging answers continue."""

    def __init__(
        self,
        answer: ScriptedAnswer,
        wire: FakeWire,
        writer: asyncio.StreamWriter,
        released: asyncio.Event,
    ) -> None:
        self.is_complete = False
        """Whether the whole answer was written without a stop."""
        self._answer = answer
        self._wire = wire
        self._writer = writer
        self._released = released

    async def write(self, *, is_streamed: bool) -> bool:
        """Write the answer; return whether the connection stays usable."""
        if not await self._pass("headers"):
            return False
        if self._answer.raw is not None or not is_streamed:
            return await self._write_whole()
        return await self._write_stream()

    async def _write_whole(self) -> bool:
        answer, writer = self._answer, self._writer
        await self._pause()
        body = answer.raw if answer.raw is not None else self._wire.whole(answer)
        head = self._head(f"Content-Length: {len(body)}", "application/json")
        if answer.cut or answer.hang:
            middle = len(body) // 2
            writer.write(head + body[:middle])
            await writer.drain()
            if not await self._pass(answer.cut or answer.hang):
                return False
            writer.write(body[middle:])
            return True
        writer.write(head + body)
        self.is_complete = True
        return True

    async def _write_stream(self) -> bool:
        writer = self._writer
        first, *others = self._wire.frames(self._answer)
        head = self._head("Transfer-Encoding: chunked", "text/event-stream")
        writer.write(head + encode_chunk(first))
        if not await self._pass("first_token"):
            return False
        for number, frame in enumerate(others):
            await self._pause()
            if number == self._wire.lead and not await self._pass("mid_stream"):
                return False
            writer.write(encode_chunk(frame))
            if self._answer.pause_seconds:
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        self.is_complete = True
        return True

    async def _pass(self, point: StreamPoint | None) -> bool:
        """Hang or cut at this point if scripted; return whether to continue."""
        if self._answer.hang == point:
            await self._writer.drain()
            await self._released.wait()
        if self._answer.cut == point:
            await self._writer.drain()
            self._writer.transport.abort()
            return False
        return True

    async def _pause(self) -> None:
        if self._answer.pause_seconds:
            await asyncio.sleep(self._answer.pause_seconds)

    def _head(self, framing: str, content_type: str) -> bytes:
        answer = self._answer
        lines = [
            f"HTTP/1.1 {answer.status} Fake",
            f"Content-Type: {answer.content_type or content_type}",
            framing,
            *(f"{name}: {value}" for name, value in answer.headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()
