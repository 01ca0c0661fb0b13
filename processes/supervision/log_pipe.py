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
"""What is kept of a line: far more than is logged of it."""
MAX_LINE_LENGTH = 4000
"""What is logged of a line."""
LAST_BYTES = 1024 * 1024
"""What is read at most of a pipe whose writer is gone."""

MAX_KEPT_LINES = 50
"""Of each sidecar, to be shown without the log."""
MAX_KEPT_LENGTH = 500

BURST_LINES = 1000
LINES_PER_SECOND = 100
"""What a program may print for long; a log that takes more fills its disk in a day."""

logger = logging.getLogger("processes.sidecars")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line a sidecar printed."""

    at: float
    """In epoch seconds."""
    stream: Stream
    text: str
    """Without secrets."""


class OutputLogger:
    """Writes a sidecar's lines to the log, as many as that can bear."""

    def __init__(self, sidecar: str) -> None:
        self._sidecar = sidecar
        self._credit = float(BURST_LINES)
        self._counted_at = time.monotonic()
        self._left_out = 0
        self.last: deque[OutputLine] = deque(maxlen=MAX_KEPT_LINES)
        """The newest lines that were logged."""

    def add(self, stream: Stream, line: bytes) -> None:
        """Log one line, or count it as dropped."""
        if not self._has_room():
            self._left_out += 1
            return
        self.log_dropped()
        text = line.decode("utf-8", "replace").rstrip("\r")
        if len(text) > MAX_LINE_LENGTH:
            # Before it is cut, which would leave the half of a secret.
            text = f"{redaction.redact_all(text)[:MAX_LINE_LENGTH]}… (cut off)"
        self.last.append(OutputLine(time.time(), stream, _redact_line(text)))
        logger.info(
            "sidecar=%s stream=%s %s",
            *(self._sidecar, stream, text),
            extra={"fields": {"sidecar": self._sidecar, "stream": stream}},
        )

    def log_dropped(self) -> None:
        """Log how many lines were dropped since the last logged one."""
        if self._left_out:
            logger.warning(
                "sidecar=%s printed more than %d lines a second: %d left out",
                *(self._sidecar, LINES_PER_SECOND, self._left_out),
                extra={"fields": {"sidecar": self._sidecar}},
            )
            self._left_out = 0

    def _has_room(self) -> bool:
        now = time.monotonic()
        gained = (now - self._counted_at) * LINES_PER_SECOND
        self._credit = min(BURST_LINES, self._credit + gained)
        self._counted_at = now
        # Once it ran out there is none until a second's worth is there, so that what
        # was left out is told once a second.
        if self._credit < (LINES_PER_SECOND if self._left_out else 1):
            return False
        self._credit -= 1
        return True


def _redact_line(text: str) -> str:
    text = redaction.redact_all(text)
    cut = f"{text[: MAX_KEPT_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
    return text if len(text) <= MAX_KEPT_LENGTH else cut


class OutputPipe:
    """Reads the output of a process on the event loop."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._rest = b""
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self.read)

    def read(self) -> int:
        """Take what is there; return how much that was."""
        try:
            piece = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            # Whoever wrote has closed it, or is gone.
            self._loop.remove_reader(self._reader)
            return 0
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._tell(line[:MAX_LINE_BYTES])
        self._rest = rest[:MAX_LINE_BYTES]
        return len(piece)

    def close(self) -> None:
        """Take what is left, and listen no more."""
        left = LAST_BYTES
        while left > 0 and (size := self.read()):
            left -= size
        if self._rest:
            self._tell(self._rest)
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
