"""Celery's ways in."""

from celery import shared_task

from smoke.execution import run_lifecycle
from tasks.queue import worker_notifier


@shared_task(name="smoke.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Close the runs that are over, and launch those whose time has come."""
    run_lifecycle.sweep()
    if run_lifecycle.launch_due():
        worker_notifier.soon()


@shared_task(name="smoke.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the runs that are old enough."""
    run_lifecycle.prune()
