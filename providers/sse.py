"""Server-Sent Events, as bytes come in.

https://html.spec.whatwg.org/multipage/server-sent-events.html, but for two things:
`id` and `retry` mean nothing here, and an event whose blank line was lost at the
end of the stream still counts, for some servers never send it.
"""

Event = tuple[str, bytes]
"""The event's name ("" when it has none) and its data, still encoded."""

BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 32 * 1024 * 1024


class EventTooLongError(ValueError):
    """An event larger than any reply we can imagine."""


class Parser:
    """Turns pieces of a stream, cut anywhere, into events."""

    __slots__ = ("_after_cr", "_data", "_name", "_rest", "_started")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._name = ""
        self._started = False
        self._after_cr = False

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events this piece completes."""
        if not piece:
            return []
        if self._rest:
            piece = self._rest + piece
        if not self._started:
            if BOM.startswith(piece):
                self._rest = b"" if piece == BOM else piece
                self._started = piece == BOM
                return []
            piece = piece.removeprefix(BOM)
            self._started = True
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        lines = piece.splitlines()
        # A "\r" at the very end closes its line; a "\n" still to come belongs to it.
        self._after_cr = piece.endswith(b"\r")
        ends_whole = self._after_cr or piece.endswith(b"\n")
        self._rest = b"" if ends_whole or not lines else lines.pop()
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLongError("an event of the stream is too long")
        return self._read(lines)

    def end(self) -> list[Event]:
        """Return the event the end of the stream completes, if one was open."""
        lines = [self._rest, b""] if self._rest else [b""]
        self._rest = b""
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append((self._name, b"\n".join(self._data)))
                    self._data = []
                self._name = ""
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ").decode(errors="replace")
            elif line == b"data":
                self._data.append(b"")
        return events
