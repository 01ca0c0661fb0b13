"""The signals that stop a process, in a form that an event loop can wait for."""

import asyncio
import signal
import time

ECHO_SECONDS = 0.5
"""A runner such as make or npm forwards the terminal's ^C, so that it arrives twice."""


class StopSignals:
    """Receives SIGTERM, SIGINT and SIGHUP from now until the event loop ends."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.requested_at = 0.0
        self.is_urgent = asyncio.Event()
        """Set by a second SIGTERM or ^C: kill at once."""
        numbers = [signal.SIGTERM, signal.SIGINT]
        # Ignored in the background and under nohup; otherwise a closed terminal stops
        # the server.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._receive, number)

    def _receive(self, number: int) -> None:
        now = time.monotonic()
        if not self.requested.is_set():
            self.requested_at = now
            self.requested.set()
        elif number != signal.SIGHUP and now - self.requested_at > ECHO_SECONDS:
            self.is_urgent.set()
