"""Celery tasks of telemetry."""

from datetime import UTC, datetime

from celery import shared_task

from telemetry.storage import retention


@shared_task(name="telemetry.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete expired turns and expenses."""
    retention.delete_expired(datetime.now(UTC))
