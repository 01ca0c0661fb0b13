"""Celery tasks about all tables."""

from celery import shared_task

from core.runtime import shared_clock
from database import retention


@shared_task(name="database.tasks.delete_expired", ignore_result=True)
def delete_expired() -> None:
    retention.delete_all_expired(shared_clock.now())
