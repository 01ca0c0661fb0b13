"""Signals as something a loop can wait for."""

import select
import signal
import socket
import time
from types import FrameType, TracebackType

ECHO_SECONDS = 0.5
"""A runner such as make or npm passes the terminal's ^C on a second time."""


class SignalReceiver:
    """Takes SIGTERM, SIGINT, SIGHUP and SIGCHLD while it is open."""

    def __init__(self) -> None:
        self.stop_requested_at: float | None = None
        self.is_urgent = False
        """Whether the user asked twice: kill, do not wait."""

    def __enter__(self) -> "SignalReceiver":
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._take)
        signal.signal(signal.SIGINT, self._take)
        # Ignored when detached or under nohup; else a closed terminal is a stop.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    @property
    def is_stop_requested(self) -> bool:
        return self.stop_requested_at is not None

    def wait(self, seconds: float) -> None:
        """Return at the next signal, a child's death among them, or after `seconds`."""
        select.select([self._reader], [], [], max(seconds, 0))
        try:
            self._reader.recv(4096)
        except BlockingIOError:
            return

    def _take(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.stop_requested_at is None:
            self.stop_requested_at = now
        elif number == signal.SIGINT and now - self.stop_requested_at > ECHO_SECONDS:
            self.is_urgent = True
