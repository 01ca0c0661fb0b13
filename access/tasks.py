"""Celery's ways in."""

import time

from celery import shared_task

from access.limits import usage_counters


@shared_task(name="access.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the meters of windows that are over."""
    usage_counters.prune(int(time.time()))
