"""Celery's ways in: learning, upkeep, consolidation.

Each may be sent at any time, as often as one likes: the rows say what there is to do.
"""

import threading
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from memory.extraction import extraction_worker
from memory.maintenance import consolidation, periodic_sweep

EXTRACTION_SECONDS = 60.0
RELEASE_AFTER_SECONDS = 7.0
"""After a worker is told to end; a second later it is cut off (`processes.worker`)."""


@shared_task(name="memory.tasks.extract_facts", ignore_result=True)
def extract_facts() -> None:
    """Learn from the turns that are due."""
    extraction_worker.run_due_jobs(EXTRACTION_SECONDS)


@shared_task(name="memory.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Do what was left undone."""
    periodic_sweep.sweep(datetime.now(UTC))


@shared_task(name="memory.tasks.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarise old conversations, if it is time."""
    consolidation.consolidate(datetime.now(UTC))


@signals.worker_shutting_down.connect
def stop_extraction(**_: Any) -> None:
    """Begin nothing new, and have others finish what this worker will not."""
    extraction_worker.stop()
    timer = threading.Timer(RELEASE_AFTER_SECONDS, extraction_worker.release_jobs)
    timer.daemon = True
    timer.start()
