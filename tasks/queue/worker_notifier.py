"""Wakes a worker when there is work. A message may be late, shared or lost."""

from collections.abc import Callable

import celery

from core.runtime.notifier import Wake
from telemetry.live_turns.active_turns import BOARD

TASK = "tasks.tasks.work"
PAUSE_SECONDS = 0.01


def send() -> None:
    """Send the message; raises whatever is wrong with the broker."""
    celery.current_app.send_task(TASK, ignore_result=True, retry=False, expires=60)


_way = send


def _go() -> None:
    _way()


_wake = Wake(_go, pause_seconds=PAUSE_SECONDS, waiting="background work")


def by(way: Callable[[], None]) -> None:
    """Wake otherwise than by a message: in a command that does the work itself."""
    global _way
    _way = way


def soon() -> None:
    """Have a worker look at the queue. Takes microseconds and never raises."""
    BOARD.mark_tasks_changed()
    _wake.notify()


def flush() -> None:
    """Send what is still to be sent; blocks until the broker has it or fails."""
    _wake.flush()
