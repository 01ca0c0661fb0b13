"""Celery's ways in."""

from celery import shared_task

from smoke import runs
from tasks import wake


@shared_task(name="smoke.jobs.sweep", ignore_result=True)
def sweep() -> None:
    """Close the runs that are over, and launch those whose time has come."""
    runs.sweep()
    if runs.launch_due():
        wake.soon()


@shared_task(name="smoke.jobs.prune", ignore_result=True)
def prune() -> None:
    """Delete the runs that are old enough."""
    runs.prune()
