"""Celery's ways in."""

from celery import shared_task

from config import live
from turns import verdicts


@shared_task(name="turns.jobs.verdicts", ignore_result=True)
def tell_winners() -> None:
    """Say which experiments have a winner."""
    verdicts.tell(live.current())
