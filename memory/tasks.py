"""Celery's ways in: learning, upkeep, consolidation.

Each may be sent at any time, as often as one likes: the rows say what there is to do.
"""

import threading
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from memory.extraction import extraction_worker
from memory.maintenance import consolidation, periodic_sweep

WORK_SECONDS = 60.0
GIVE_BACK_SECONDS = 7.0
"""After a worker is told to end; a second later it is cut off (`processes.worker`)."""


@shared_task(name="memory.tasks.work", ignore_result=True)
def work() -> None:
    """Learn from the turns that are due."""
    extraction_worker.drain(WORK_SECONDS)


@shared_task(name="memory.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Do what was left undone."""
    periodic_sweep.sweep(datetime.now(UTC))


@shared_task(name="memory.tasks.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarise old conversations, if it is time."""
    consolidation.run(datetime.now(UTC))


@signals.worker_shutting_down.connect
def let_go(**_: Any) -> None:
    """Begin nothing new, and have others finish what this worker will not."""
    extraction_worker.stop()
    timer = threading.Timer(GIVE_BACK_SECONDS, extraction_worker.give_back)
    timer.daemon = True
    timer.start()
