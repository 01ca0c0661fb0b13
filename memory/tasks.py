"""Celery tasks of memory: extraction, sweep, consolidation.

Each may be sent at any time and repeatedly: the database rows hold the work.
"""

import threading
from datetime import UTC, datetime
from typing import Any

from celery import shared_task, signals

from memory.extraction import extraction_worker
from memory.maintenance import consolidation, periodic_sweep

EXTRACTION_SECONDS = 60.0
RELEASE_AFTER_SECONDS = 7.0
"""Seconds after a worker's stop signal; a second later it is killed
(`processes.worker`)."""


@shared_task(name="memory.tasks.extract_facts", ignore_result=True)
def extract_facts() -> None:
    """Run the due extraction jobs."""
    extraction_worker.run_due_jobs(EXTRACTION_SECONDS)


@shared_task(name="memory.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Run the periodic sweep."""
    periodic_sweep.sweep(datetime.now(UTC))


@shared_task(name="memory.tasks.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarise old conversations if it is time."""
    consolidation.consolidate(datetime.now(UTC))


@signals.worker_shutting_down.connect
def stop_extraction(**_: Any) -> None:
    """Start no new jobs, and release those that this worker will not finish."""
    extraction_worker.stop()
    timer = threading.Timer(RELEASE_AFTER_SECONDS, extraction_worker.release_jobs)
    timer.daemon = True
    timer.start()
