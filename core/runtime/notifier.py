"""Send wake-up messages at a limited rate, from a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Notifier:
    """Sends a message from a background thread."""

    def __init__(
        self, send: Callable[[], None], *, pause_seconds: float, delayed_work: str
    ) -> None:
        """Call `send`, which may raise; `delayed_work` names what waits if it does."""
        self._send = send
        self._pause_seconds = pause_seconds
        self._delayed_work = delayed_work
        self._is_pending = threading.Event()
        self._start_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_failed = False
        """Whether the last attempt failed."""

    def notify(self) -> None:
        """Schedule the message. Takes microseconds and never raises."""
        if self._is_pending.is_set():
            return
        self._is_pending.set()
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Send a pending message now."""
        with self._send_lock:
            if self._is_pending.is_set():
                self._is_pending.clear()
                self._try_to_send()

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="notifier", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._is_pending.wait()
            self.flush()
            time.sleep(self._pause_seconds)

    def _try_to_send(self) -> None:
        try:
            self._send()
        except Exception as exc:
            # A broker failure loses nothing: the rows are stored.
            if not self._has_failed:
                self._has_failed = True
                logger.warning(
                    "the broker is unavailable, so %s waits for the next sweep: %s",
                    self._delayed_work,
                    exc,
                )
        else:
            self._has_failed = False
