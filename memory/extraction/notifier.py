"""Wakes a worker when there is something to learn.

The lesson's row is the truth; a message to the queue only saves the worker from
looking. So it may be late, shared by many turns, or lost: a sweep finds the row.
"""

import celery

from core.runtime.notifier import Notifier

TASK_NAME = "memory.tasks.extract_facts"
MIN_INTERVAL_SECONDS = 0.5
"""Between two messages: turns that end meanwhile share the next."""


def send_message() -> None:
    """Send the message; raises whatever is wrong with the broker."""
    # Late is as good as lost: the sweep looks again anyway.
    celery.current_app.send_task(TASK_NAME, ignore_result=True, retry=False, expires=60)


_notifier = Notifier(
    send_message, pause_seconds=MIN_INTERVAL_SECONDS, waiting="learning"
)


def notify() -> None:
    """Have a worker look for lessons shortly.

    Takes microseconds and never raises, so it may be called on the event loop; many
    calls make one message.
    """
    _notifier.notify()


def flush() -> None:
    """Send what is still to be sent; blocks until the broker has it or fails."""
    _notifier.flush()
