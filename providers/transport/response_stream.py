"""A streamed reply as it comes in: bytes to events to errors."""

import logging

import aiohttp
import orjson

from core.errors import CoulisseError
from core.events import Event
from providers.resilience import error_mapping
from providers.resilience.error_mapping import (
    PARSE_ERRORS,
    TRANSPORT_ERRORS,
    ProviderSource,
)
from providers.resilience.timeouts import CallDeadline, ReadWatchdog
from providers.transport import sse
from providers.wires.base import ReplyReader

CALL_MARKS = (b"tool_calls", b"function_call", b"input_json")
"""What pieces of tool calls contain."""

logger = logging.getLogger(__name__)


class ResponseStream:
    def __init__(
        self,
        source: ProviderSource,
        response: aiohttp.ClientResponse,
        *,
        reader: ReplyReader,
        deadline: CallDeadline,
    ) -> None:
        self.finished = False
        self._source = source
        self._content = response.content
        self._parser = sse.SseParser()
        self._size = 0
        self._reader = reader
        self._deadline = deadline
        self._watchdog = ReadWatchdog(deadline, response.close)
        self._failure: CoulisseError | None = None
        self._malformed: CoulisseError | None = None
        """The error of an event that was skipped, until a good one has followed it."""
        self._has_skipped = False

    async def next_events(self) -> list[Event]:
        """Return the next events, at least one, as many as have come.

        Events before an error are returned before the error is raised.
        """
        if self._failure is not None:
            raise self._failure
        events: list[Event] = []
        while not events:
            piece = await self._read()
            try:
                self._parse(piece, events)
            except (*TRANSPORT_ERRORS, *PARSE_ERRORS) as exc:
                self._fail(error_mapping.from_exception(self._source, exc), events, exc)
            except CoulisseError as error:
                self._fail(error, events, error.__cause__)
        self._deadline.received = True
        return events

    def close(self) -> None:
        """Stop the timer."""
        self._watchdog.close()

    async def _read(self) -> bytes:
        try:
            piece = self._content.read_nowait()
            if piece:
                return piece
            self._watchdog.start_read()
            return await self._content.readany()
        except TRANSPORT_ERRORS as exc:
            raise self._watchdog.error(self._source, exc) from exc
        finally:
            self._watchdog.end_read()

    def _parse(self, piece: bytes, events: list[Event]) -> None:
        """Turn bytes into events; no bytes is the end of the stream."""
        self._size += len(piece)
        error_mapping.check_size(self._source, self._size)
        reader = self._reader
        for name, data in self._parser.feed(piece) if piece else self._parser.end():
            try:
                events += reader.feed(name, data)
            except (orjson.JSONDecodeError, *PARSE_ERRORS) as exc:
                self._skip(data, exc, is_first=not events)
                continue
            if reader.done:
                break
            self._malformed = None
        if (reader.done or not piece) and self._malformed is not None:
            raise self._malformed
        if reader.done or not piece:
            events.append(reader.end())
            self.finished = True

    def _skip(self, data: bytes, exc: Exception, *, is_first: bool) -> None:
        """Skip a malformed event between good ones, or raise its exception.

        Only one, and none of a tool call, whose arguments would lack a piece.
        """
        is_first = is_first and not self._deadline.received
        if is_first or self._has_skipped or any(each in data for each in CALL_MARKS):
            raise exc
        self._has_skipped = True
        self._malformed = error_mapping.from_exception(self._source, exc)
        logger.warning("skipped a piece of a stream: %s", self._malformed)

    def _fail(
        self, error: CoulisseError, events: list[Event], cause: BaseException | None
    ) -> None:
        error.__cause__ = cause
        if not events:
            raise error
        self._failure = error
