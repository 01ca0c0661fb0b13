"""Server-Sent Events, as bytes come in.

https://html.spec.whatwg.org/multipage/server-sent-events.html, with two differences:
`id` and `retry` are ignored, and an event without a blank line at the end of the stream
still counts, because some servers never send that line.
"""

SseEvent = tuple[str, bytes]
"""The event's name ("" without one) and its encoded data."""

BOM = b"\xef\xbb\xbf"


class SseParser:
    """Turns pieces of a stream, cut anywhere, into events.

    It buffers an unfinished event without limit: the caller enforces the limit.
    """

    __slots__ = ("_after_cr", "_data", "_name", "_rest", "_started")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of an unfinished line."""
        self._data: list[bytes] = []
        self._name = ""
        self._started = False
        self._after_cr = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events this piece completes."""
        if not self._started:
            piece = self._begin(piece)
        if piece and self._after_cr:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if not piece:
            return []
        if b"\n" not in piece and b"\r" not in piece:
            self._rest.append(piece)
            return []
        lines = self._take(piece).splitlines()
        # A "\r" at the end closes its line; a following "\n" belongs to it.
        self._after_cr = piece.endswith(b"\r")
        if not self._after_cr and not piece.endswith(b"\n"):
            self._rest.append(lines.pop())
        return self._read(lines)

    def end(self) -> list[SseEvent]:
        """Return the event the end of the stream completes, if one was open."""
        return self._read([self._take(b""), b""])

    def _begin(self, piece: bytes) -> bytes:
        """Return the first piece without a byte order mark."""
        piece = self._take(piece)
        if BOM.startswith(piece) and piece != BOM:
            self._rest.append(piece)
            return b""
        self._started = True
        return piece.removeprefix(BOM)

    def _take(self, piece: bytes) -> bytes:
        """Return a piece prefixed with the buffered rest."""
        if not self._rest:
            return piece
        self._rest.append(piece)
        whole = b"".join(self._rest)
        self._rest = []
        return whole

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
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
