"""Send wake-up messages at a limited rate, from a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Notifier:
    """Sends a message from a background thread."""

    def __init__(
        self, send: Callable[[], None], *, pause_seconds: float, waiting: str
    ) -> None:
        """Call `send`, which may raise; `waiting` names what is delayed if it does."""
        self._send = send
        self._pause_seconds = pause_seconds
        self._waiting = waiting
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_down = False
        """Whether the broker was down at the last attempt."""

    def notify(self) -> None:
        """Schedule the message. Takes microseconds and never raises."""
        if self._wanted.is_set():
            return
        self._wanted.set()
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Send a pending message now."""
        with self._sending:
            if self._wanted.is_set():
                self._wanted.clear()
                self._try_to_send()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="wake", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self.flush()
            time.sleep(self._pause_seconds)

    def _try_to_send(self) -> None:
        try:
            self._send()
        except Exception as exc:
            # A broker failure loses nothing: the rows are stored.
            if not self._is_down:
                self._is_down = True
                logger.warning(
                    "the queue does not take messages, so %s waits for the next "
                    "sweep: %s",
                    *(self._waiting, exc),
                )
        else:
            self._is_down = False
