"""Logs the output of other programs, of any length and content, in lines."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from core.text import redaction

Stream = Literal["stdout", "stderr"]

READ_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024
"""Maximum bytes read of a line; the log truncates it further."""
MAX_LINE_LENGTH = 4000
"""Maximum characters of a line in the log."""
LAST_BYTES = 1024 * 1024
"""Maximum bytes read from a pipe after its writer has ended."""

MAX_STATUS_LINES = 50
"""Newest lines of each sidecar that its status shows."""
MAX_STATUS_LENGTH = 500

BURST_LINES = 1000
LINES_PER_SECOND = 100
"""Sustained limit of a program; a higher one would fill the disk within a day."""

logger = logging.getLogger("processes.sidecars")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line that a sidecar printed."""

    at: float
    """Time, in epoch seconds."""
    stream: Stream
    text: str
    """Redacted."""


class OutputLogger:
    """Writes a sidecar's lines to the log, up to a rate limit."""

    def __init__(self, sidecar: str) -> None:
        self._sidecar = sidecar
        self._credit = float(BURST_LINES)
        self._counted_at = time.monotonic()
        self._dropped = 0
        self.lines: deque[OutputLine] = deque(maxlen=MAX_STATUS_LINES)
        """The newest logged lines."""

    def add(self, stream: Stream, line: bytes) -> None:
        """Log one line, or count it as dropped."""
        if not self._take_credit():
            self._dropped += 1
            return
        self.log_dropped()
        text = line.decode("utf-8", "replace").rstrip("\r")
        if len(text) > MAX_LINE_LENGTH:
            # Redacted first, because truncation could leave half of a secret.
            text = f"{redaction.redact_all(text)[:MAX_LINE_LENGTH]}… (truncated)"
        self.lines.append(OutputLine(time.time(), stream, _redact_line(text)))
        logger.info(
            "sidecar=%s stream=%s %s",
            self._sidecar,
            stream,
            text,
            extra={"fields": {"sidecar": self._sidecar, "stream": stream}},
        )

    def log_dropped(self) -> None:
        """Log how many lines were dropped since the last logged one."""
        if self._dropped:
            logger.warning(
                "sidecar=%s printed more than %d lines a second: dropped %d",
                self._sidecar,
                LINES_PER_SECOND,
                self._dropped,
                extra={"fields": {"sidecar": self._sidecar}},
            )
            self._dropped = 0

    def _take_credit(self) -> bool:
        """Return whether the rate limit allows a line."""
        now = time.monotonic()
        gained = (now - self._counted_at) * LINES_PER_SECOND
        self._credit = min(BURST_LINES, self._credit + gained)
        self._counted_at = now
        # After running out, wait for a second's credit, so that the number of dropped
        # lines is logged once a second.
        if self._credit < (LINES_PER_SECOND if self._dropped else 1):
            return False
        self._credit -= 1
        return True


def _redact_line(text: str) -> str:
    text = redaction.redact_all(text)
    if len(text) <= MAX_STATUS_LENGTH:
        return text
    return f"{text[: MAX_STATUS_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


class OutputPipe:
    """Reads the output of a process on the event loop."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest = b""
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self.read)

    def read(self) -> int:
        """Read the available output; return the number of bytes."""
        try:
            piece = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            # The writer has closed it or has ended.
            self._loop.remove_reader(self._reader)
            return 0
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._on_line(line[:MAX_LINE_BYTES])
        self._rest = rest[:MAX_LINE_BYTES]
        return len(piece)

    def close(self) -> None:
        """Read the rest of the output, and close the pipe."""
        limit = LAST_BYTES
        while limit > 0 and (size := self.read()):
            limit -= size
        if self._rest:
            self._on_line(self._rest)
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
