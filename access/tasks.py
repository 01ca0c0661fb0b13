"""The Celery tasks of this app."""

import time

from celery import shared_task

from access.limits import usage_counters


@shared_task(name="access.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the counters of windows that have ended."""
    usage_counters.prune(int(time.time()))
