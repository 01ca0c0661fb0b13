"""Wakes a worker when there is something to learn.

The lesson's row is the truth; a message to the queue only saves the worker from
looking. So it may be late, shared by many turns, or lost: a sweep finds the row.
"""

import logging
import threading
import time
from collections.abc import Callable

import celery

logger = logging.getLogger(__name__)

TASK = "memory.jobs.work"
PAUSE_SECONDS = 0.5
"""Between two messages: turns that end meanwhile share the next."""


def send() -> None:
    """Send the message; raises whatever is wrong with the broker."""
    # Late is as good as lost: the sweep looks again anyway.
    celery.current_app.send_task(TASK, ignore_result=True, retry=False, expires=60)


class Wake:
    """Has the message sent, from a thread of its own."""

    def __init__(
        self, send: Callable[[], None], *, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._send = send
        self._pause_seconds = pause_seconds
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_down = False
        """Whether the broker was, when it was last tried."""

    def soon(self) -> None:
        """Have a worker look for lessons shortly. Costs nothing, never raises."""
        if self._wanted.is_set():
            return
        self._wanted.set()
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Send what is still to be sent, now."""
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
            # Whatever is wrong with the broker, the turn is stored and so its lesson.
            if not self._is_down:
                self._is_down = True
                logger.warning(
                    "the queue does not take messages, so learning waits for the next "
                    "sweep: %s",
                    exc,
                )
        else:
            self._is_down = False


_wake = Wake(send)


def soon() -> None:
    """Have a worker look for lessons shortly.

    Takes microseconds and never raises, so it may be called on the event loop; many
    calls make one message.
    """
    _wake.soon()


def flush() -> None:
    """Send what is still to be sent; blocks until the broker has it or fails."""
    _wake.flush()
