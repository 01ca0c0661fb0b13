"""Celery tasks and signals: each worker process runs the queue until it stops.

A message makes it check the queue at once; without messages it polls every few seconds.
"""

import threading
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from tasks.queue import lease_recovery, retention
from tasks.worker import service


@shared_task(name="tasks.tasks.work", ignore_result=True)
def work() -> None:
    """Check the queue."""
    service.check_queue()


@shared_task(name="tasks.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Recover tasks of dead workers, and check the queue."""
    lease_recovery.recover_leases()
    service.check_queue()


@shared_task(name="tasks.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete expired tasks."""
    retention.delete_expired(datetime.now(UTC))


@signals.worker_shutting_down.connect
def stop_service(**_: Any) -> None:
    """Claim no more tasks, and let running ones finish."""
    # A second signal stops at once.
    if _stop_thread.ident is None:
        _stop_thread.start()


@signals.worker_shutdown.connect
def wait_for_stop(**_: Any) -> None:
    """Delay the process's exit until then, because Celery does not know the running
    tasks.
    """
    if _stop_thread.is_alive():
        _stop_thread.join()


_stop_thread = threading.Thread(target=service.stop, name="tasks-stop")
