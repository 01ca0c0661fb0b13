"""Celery tasks of smoke tests."""

from celery import shared_task

from smoke.execution import run_lifecycle
from tasks.queue import worker_notifier


@shared_task(name="smoke.tasks.close_and_launch", ignore_result=True)
def close_and_launch() -> None:
    """Close finished runs, and launch due tests."""
    run_lifecycle.close_finished_runs()
    if run_lifecycle.launch_due():
        worker_notifier.notify()


@shared_task(name="smoke.tasks.delete_expired", ignore_result=True)
def delete_expired() -> None:
    """Delete expired runs."""
    run_lifecycle.delete_expired()
