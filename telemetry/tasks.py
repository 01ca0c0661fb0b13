"""Celery tasks of telemetry."""

from celery import shared_task

from core.runtime import shared_clock
from telemetry.statistics import hourly_rollup


@shared_task(name="telemetry.tasks.roll_up", ignore_result=True)
def roll_up() -> None:
    """Total the finished hours."""
    hourly_rollup.roll_up(shared_clock.now())
