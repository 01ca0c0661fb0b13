"""Celery's ways in: a worker works the queue off as long as it runs.

Messages have it look at once; without any it looks every few seconds.
"""

import threading
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from tasks.queue import lease_recovery, retention
from tasks.worker import service


@shared_task(name="tasks.tasks.work", ignore_result=True)
def work() -> None:
    """Look for work."""
    service.kick()


@shared_task(name="tasks.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Take up what was lost with its workers, and look for work."""
    lease_recovery.recover_leases()
    service.kick()


@shared_task(name="tasks.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the tasks that ended longer ago than they are kept."""
    retention.delete_expired(datetime.now(UTC))


@signals.worker_shutting_down.connect
def stop_service(**_: Any) -> None:
    """Begin nothing more, and let what is running end."""
    # Whoever is impatient says it twice.
    if _stop_thread.ident is None:
        _stop_thread.start()


@signals.worker_shutdown.connect
def wait_for_stop(**_: Any) -> None:
    """Have the process go on until that is over: Celery knows of none of it."""
    if _stop_thread.is_alive():
        _stop_thread.join()


_stop_thread = threading.Thread(target=service.stop, name="tasks-end")
