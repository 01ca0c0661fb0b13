"""Notifies a worker of new tasks. A message may be late, merged or lost."""

from collections.abc import Callable

import celery

from core.runtime.notifier import Notifier
from telemetry.live_turns.active_turns import ACTIVE_TURNS

TASK = "tasks.tasks.work"
PAUSE_SECONDS = 0.01


def send_message() -> None:
    """Send the message; raises the broker's errors."""
    celery.current_app.send_task(TASK, ignore_result=True, retry=False, expires=60)


_notify = send_message


def _call_notify() -> None:
    _notify()


_notifier = Notifier(
    _call_notify, pause_seconds=PAUSE_SECONDS, delayed_work="background work"
)


def use_notify(function: Callable[[], None]) -> None:
    """Notify with this function instead, in a command that runs the tasks itself."""
    global _notify
    _notify = function


def notify() -> None:
    """Notify a worker. Takes microseconds and never raises."""
    ACTIVE_TURNS.mark_tasks_changed()
    _notifier.notify()


def flush() -> None:
    """Send pending messages; blocks until the broker has them or fails."""
    _notifier.flush()
