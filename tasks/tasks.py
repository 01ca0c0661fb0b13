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
    lease_recovery.sweep()
    service.kick()


@shared_task(name="tasks.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the tasks that ended longer ago than they are kept."""
    retention.run(datetime.now(UTC))


@signals.worker_shutting_down.connect
def end(**_: Any) -> None:
    """Begin nothing more, and let what is running end."""
    # Whoever is impatient says it twice.
    if _ending.ident is None:
        _ending.start()


@signals.worker_shutdown.connect
def wait(**_: Any) -> None:
    """Have the process go on until that is over: Celery knows of none of it."""
    if _ending.is_alive():
        _ending.join()


_ending = threading.Thread(target=service.stop, name="tasks-end")
