"""Celery's ways in."""

from celery import shared_task

from config import live
from turns.evaluation import winner_log


@shared_task(name="turns.tasks.verdicts", ignore_result=True)
def tell_winners() -> None:
    """Say which experiments have a winner."""
    winner_log.tell(live.current())
