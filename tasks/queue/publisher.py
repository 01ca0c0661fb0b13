"""Publishes permits: messages that let a worker run one task of a kind.

The rows are the tasks; which of them runs is decided when a worker claims it. So a
permit may be late, lost or one too many: a worker that finds another due row publishes
the next permit itself, and `recovery` publishes those that are missing.
"""

import heapq
import logging
import math
import threading
import time
from collections.abc import Callable

from celery import Celery
from django.conf import settings
from django.utils.module_loading import import_string

from tasks.queue import task_kinds
from telemetry.live_turns.active_turns import ACTIVE_TURNS

MAX_DELAY_SECONDS = 6.0
"""A permit for a later time is left to `recovery`, which runs more often than this."""
EXPIRY_SECONDS = 60
"""Permits do not accumulate while no worker runs."""

logger = logging.getLogger(__name__)


class Publisher:
    """Sends permits from a thread of its own: no caller waits for the broker."""

    def __init__(self, send: Callable[[str], None]) -> None:
        """`send` publishes one permit of a kind, and may raise."""
        self.send = send
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._due: dict[str, float] = {}
        """When the permit of each kind is sent."""
        self._delayed: list[tuple[float, str]] = []
        self._sent: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._has_failed = False
        """Whether the last attempt failed."""

    def notify(
        self, kind: str, delay_seconds: float = 0.0, *, interval_seconds: float = 0.0
    ) -> None:
        """Schedule a permit. Takes microseconds and never raises.

        Permits of a kind that wait to be sent become one, and it waits until
        `interval_seconds` after the previous one.
        """
        if delay_seconds <= 0 and kind in self._due and interval_seconds:
            return
        with self._changed:
            if delay_seconds > 0:
                heapq.heappush(self._delayed, (time.monotonic() + delay_seconds, kind))
            else:
                self._schedule(kind, interval_seconds)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="task-permits", daemon=True
                )
                self._thread.start()

    def _schedule(self, kind: str, interval_seconds: float = 0.0) -> None:
        at = max(time.monotonic(), self._sent.get(kind, 0.0) + interval_seconds)
        self._due[kind] = min(at, self._due.get(kind, at))

    def flush(self) -> None:
        """Send what is scheduled for now."""
        self._send_until(math.inf)

    def _run(self) -> None:
        while True:
            with self._changed:
                while (pause := self._pause_seconds()) is None or pause > 0:
                    self._changed.wait(pause)
            self._send_until(time.monotonic())

    def _pause_seconds(self) -> float | None:
        """Return the time until the next permit, or None."""
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._schedule(heapq.heappop(self._delayed)[1])
        times = [*self._due.values(), *(at for at, _ in self._delayed[:1])]
        return min(times) - time.monotonic() if times else None

    def _send_until(self, until: float) -> None:
        with self._sending:
            with self._changed:
                kinds = [kind for kind, at in self._due.items() if at <= until]
                for kind in kinds:
                    del self._due[kind]
                    self._sent[kind] = time.monotonic()
            for kind in kinds:
                self.send_now(kind)

    def send_now(self, kind: str) -> None:
        """Send a permit; waits for the broker, and never raises."""
        try:
            self.send(kind)
        except Exception as exc:
            # A broker failure loses nothing: the rows are stored.
            if not self._has_failed:
                logger.warning(
                    "the broker is unavailable, so background work waits: %s", exc
                )
            self._has_failed = True
        else:
            self._has_failed = False


def send_permit(kind: str) -> None:
    """Send a permit; raises the broker's errors."""
    # Loaded here, because commands that send nothing need not load it.
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    found = task_kinds.get(kind)
    if found is not None:
        app.send_task(
            found.celery_name,
            queue=found.queue,
            ignore_result=True,
            retry=False,
            expires=EXPIRY_SECONDS,
        )


_publisher = Publisher(send_permit)


def notify(
    kind: str, delay_seconds: float = 0.0, *, interval_seconds: float = 0.0
) -> None:
    """Publish a permit soon, or after a delay. Takes microseconds and never raises.

    With an interval, tasks that follow each other closely share a permit.
    """
    ACTIVE_TURNS.mark_tasks_changed()
    if delay_seconds <= MAX_DELAY_SECONDS:
        _publisher.notify(kind, delay_seconds, interval_seconds=interval_seconds)


send_now, flush = _publisher.send_now, _publisher.flush


def use_sender(send: Callable[[str], None]) -> None:
    """Hand this process's permits to a function instead of the broker."""
    _publisher.send = send
