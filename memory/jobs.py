"""Celery's ways in: learning, upkeep, consolidation.

Each may be sent at any time, as often as one likes: the rows say what there is to do.
"""

from celery import shared_task

from memory import learning

WORK_SECONDS = 60.0


@shared_task(name="memory.jobs.work", ignore_result=True)
def work() -> None:
    """Learn from the turns that are due."""
    learning.drain(WORK_SECONDS)
