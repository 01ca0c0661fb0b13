"""Wakes a worker when there is work. A message may be late, shared or lost."""

import celery

from core.wake import Wake

TASK = "tasks.jobs.work"
PAUSE_SECONDS = 0.01


def send() -> None:
    """Send the message; raises whatever is wrong with the broker."""
    celery.current_app.send_task(TASK, ignore_result=True, retry=False, expires=60)


_wake = Wake(send, pause_seconds=PAUSE_SECONDS, waiting="background work")


def soon() -> None:
    """Have a worker look at the queue. Takes microseconds and never raises."""
    _wake.soon()


def flush() -> None:
    """Send what is still to be sent; blocks until the broker has it or fails."""
    _wake.flush()
