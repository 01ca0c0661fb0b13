"""Celery's ways in: learning, upkeep, consolidation.

Each may be sent at any time, as often as one likes: the rows say what there is to do.
"""

from datetime import UTC, datetime

from celery import shared_task

from memory import consolidation, learning, upkeep

WORK_SECONDS = 60.0


@shared_task(name="memory.jobs.work", ignore_result=True)
def work() -> None:
    """Learn from the turns that are due."""
    learning.drain(WORK_SECONDS)


@shared_task(name="memory.jobs.sweep", ignore_result=True)
def sweep() -> None:
    """Do what was left undone."""
    upkeep.sweep(datetime.now(UTC))


@shared_task(name="memory.jobs.consolidate", ignore_result=True)
def consolidate() -> None:
    """Summarise old conversations, if it is time."""
    consolidation.run(datetime.now(UTC))
