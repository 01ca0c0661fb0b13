"""Probes `/health/live` during the attack, and measures its silences."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

FREEZE_SECONDS = 0.25
PAUSE_SECONDS = 0.02
SILENCE_SECONDS = 15.0
"""Time limit of a probe; a longer one counts as this long."""
PROBE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


class LivenessProbe:
    """A thread that sends probes continuously, on a kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._is_stopping = threading.Event()
        self._lock = threading.Lock()
        self._longest = 0.0
        self._sent_at: float | None = None
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join(SILENCE_SECONDS)

    def longest(self) -> float:
        """Return the longest silence since the last call, in seconds.

        A probe that still waits counts with its time until now.
        """
        with self._lock:
            waiting = 0.0
            if self._sent_at is not None:
                waiting = time.monotonic() - self._sent_at
            longest, self._longest = max(self._longest, waiting), 0.0
            return longest

    def settle(self) -> None:
        """Wait until a probe that is sent after this call is answered."""
        started_at = time.monotonic()
        while time.monotonic() - started_at < SILENCE_SECONDS:
            sent_at = self._sent_at
            if sent_at is None and self._answered_at > started_at:
                return
            time.sleep(PAUSE_SECONDS / 4)

    _answered_at = 0.0

    def _run(self) -> None:
        while not self._is_stopping.wait(PAUSE_SECONDS):
            started_at = time.monotonic()
            with self._lock:
                self._sent_at = started_at
            self._send_probe()
            self._answered_at = time.monotonic()
            with self._lock:
                self._sent_at = None
                self._longest = max(self._longest, self._answered_at - started_at)
        self._close()

    def _send_probe(self) -> None:
        try:
            if self._connection is None:
                self._connection = socket.create_connection(
                    self._address, SILENCE_SECONDS
                )
            self._connection.sendall(PROBE)
            if not self._connection.recv(65536):
                self._close()  # The server closed it; the next probe opens another one.
        except OSError:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()
