"""Receives signals in a form that a loop can wait for."""

import select
import signal
import socket
import time
from types import FrameType, TracebackType

ECHO_SECONDS = 0.5
"""A runner such as make or npm forwards the terminal's ^C, so that it arrives twice."""


class SignalReceiver:
    """Receives SIGTERM, SIGINT, SIGHUP and SIGCHLD while it is open."""

    def __init__(self) -> None:
        self.stop_requested_at: float | None = None
        self.is_urgent = False
        """Whether the user pressed ^C twice: kill at once."""

    def __enter__(self) -> "SignalReceiver":
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._receive)
        signal.signal(signal.SIGINT, self._receive)
        # Ignored in the background and under nohup; otherwise a closed terminal stops
        # the server.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._receive)
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
        """Return at the next signal, such as a child's end, or after `seconds`."""
        select.select([self._reader], [], [], max(seconds, 0))
        try:
            self._reader.recv(4096)
        except BlockingIOError:
            return

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.stop_requested_at is None:
            self.stop_requested_at = now
        elif number == signal.SIGINT and now - self.stop_requested_at > ECHO_SECONDS:
            self.is_urgent = True
