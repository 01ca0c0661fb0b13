"""Logs the output of other programs, of any length and content, in lines."""

import logging
import time
from collections import deque
from dataclasses import dataclass
from functools import partial

from core.child_processes.process_group import OnLine, Stream
from core.text import redaction
from core.text.sanitization import truncate

MAX_LINE_LENGTH = 4000
"""Maximum characters of a line in the log."""
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

    def receivers(self) -> dict[Stream, OnLine]:
        """Return the function that logs the lines of each stream."""
        return {
            "stdout": partial(self.add, "stdout"),
            "stderr": partial(self.add, "stderr"),
        }

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
        shown = truncate(redaction.redact_all(text), MAX_STATUS_LENGTH)
        self.lines.append(OutputLine(time.time(), stream, shown))
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
