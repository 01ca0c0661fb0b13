"""Splits the output of programs into lines."""

from collections.abc import Callable


class LineSplitter:
    """Calls `on_line` with each line; the rest of an overlong one is dropped."""

    def __init__(self, on_line: Callable[[bytes], None], max_bytes: int) -> None:
        self._on_line = on_line
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._on_line(line[: self._max_bytes])
        # Cut, not split into several lines, which might split a secret.
        self._rest = rest[: self._max_bytes]

    def finish(self) -> None:
        """Report an incomplete last line."""
        if self._rest:
            self._on_line(self._rest)
        self._rest = b""
