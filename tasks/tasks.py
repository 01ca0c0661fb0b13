"""Celery tasks and signals: the execution of tasks, and the care of their queue.

Each kind of task has a Celery task of its own, so that Celery's tools tell them apart.
"""

import threading
from functools import partial
from typing import Any

from celery import shared_task, signals

from access.models import UsageReservation
from tasks.queue import lease_recovery, task_kinds
from tasks.queue.task_kinds import TaskKind
from tasks.worker import service
from tasks.worker.celery_requests import RowTask


def _declare(kind: TaskKind) -> None:
    """Declare the Celery task of a kind. A message is a permit for one row."""
    kind.load_handler()  # An import would delay the first task.

    @shared_task(bind=True, base=RowTask, name=kind.celery_name, ignore_result=True)
    def run(self: RowTask) -> None:
        # The current request is known on this thread only.
        service.run_next(kind.name, partial(self.show_row, self.request.id or ""))


for _name in task_kinds.names():
    if (_kind := task_kinds.get(_name)) is not None:
        _declare(_kind)


@shared_task(name="tasks.tasks.recover", ignore_result=True)
def recover() -> None:
    """Recover tasks of dead workers and what dead processes reserved.

    Also publish missing permits.
    """
    lease_recovery.recover_leases()
    lease_recovery.publish_permits()
    UsageReservation.objects.end_abandoned()


@signals.worker_shutting_down.connect
def stop_service(**_: Any) -> None:
    """Claim no more tasks, and let running ones finish."""
    # A second signal stops at once.
    if _stop_thread.ident is None:
        _stop_thread.start()


@signals.worker_shutdown.connect
def wait_for_stop(**_: Any) -> None:
    """Delay the process's exit until the tasks that are not finished are released."""
    if _stop_thread.is_alive():
        _stop_thread.join()


_stop_thread = threading.Thread(target=service.stop, name="tasks-stop")
