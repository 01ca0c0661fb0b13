"""Notifications that wake a worker for new extraction jobs.

The job's row is the source of truth; the message only saves the worker from polling. So
it may be late, shared by several turns, or lost: the periodic sweep finds the row.
"""

import celery

from core.runtime.notifier import Notifier

TASK_NAME = "memory.tasks.extract_facts"
MIN_INTERVAL_SECONDS = 0.5
"""Seconds between two messages; turns that end meanwhile share the next one."""


def send_message() -> None:
    """Send the message; raises errors of the broker."""
    # A late message is useless: the sweep checks the queue anyway.
    celery.current_app.send_task(TASK_NAME, ignore_result=True, retry=False, expires=60)


_notifier = Notifier(
    send_message, pause_seconds=MIN_INTERVAL_SECONDS, delayed_work="fact extraction"
)


def notify() -> None:
    """Have a worker check the queue shortly.

    Takes microseconds and never raises, so it can be called on the event loop. Several
    calls share one message.
    """
    _notifier.notify()


def flush() -> None:
    """Send the pending message; blocks until the broker accepts it or fails."""
    _notifier.flush()
