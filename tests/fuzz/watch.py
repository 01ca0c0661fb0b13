"""Watches `/health/live` while requests are answered: how long it was silent."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

FREEZE_SECONDS = 0.25
PAUSE_SECONDS = 0.02
SILENCE_SECONDS = 15.0
"""After which a probe is given up and counted as that long."""
PROBE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Watch:
    """A thread that asks all the time, on a connection it keeps."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._longest = 0.0
        self._asked_at: float | None = None
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._ask_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(SILENCE_SECONDS)

    def longest(self) -> float:
        """Return the longest silence since this was last asked, in seconds.

        A probe that still waits counts with what it has waited.
        """
        with self._lock:
            waiting = 0.0
            if self._asked_at is not None:
                waiting = time.monotonic() - self._asked_at
            found, self._longest = max(self._longest, waiting), 0.0
            return found

    def settle(self) -> None:
        """Return once a probe that began after this was answered."""
        begun = time.monotonic()
        while time.monotonic() - begun < SILENCE_SECONDS:
            asked_at = self._asked_at
            if asked_at is None and self._answered_at > begun:
                return
            time.sleep(PAUSE_SECONDS / 4)

    _answered_at = 0.0

    def _ask_on(self) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            begun = time.monotonic()
            with self._lock:
                self._asked_at = begun
            self._ask()
            self._answered_at = time.monotonic()
            with self._lock:
                self._asked_at = None
                self._longest = max(self._longest, self._answered_at - begun)
        self._close()

    def _ask(self) -> None:
        try:
            if self._connection is None:
                self._connection = socket.create_connection(
                    self._address, SILENCE_SECONDS
                )
            self._connection.sendall(PROBE)
            if not self._connection.recv(65536):
                self._close()  # The server ended it: the next probe opens another.
        except OSError:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()
