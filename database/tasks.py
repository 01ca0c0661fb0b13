"""Celery tasks about all tables."""

from datetime import UTC, datetime

from celery import shared_task

from database import retention


@shared_task(name="database.tasks.delete_expired", ignore_result=True)
def delete_expired() -> None:
    retention.delete_all_expired(datetime.now(UTC))
