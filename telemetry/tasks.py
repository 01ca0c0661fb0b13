"""Celery's ways in."""

from datetime import UTC, datetime

from celery import shared_task

from telemetry.storage import retention


@shared_task(name="telemetry.tasks.prune", ignore_result=True)
def prune() -> None:
    """Delete the turns that are older than they are kept."""
    retention.delete_expired(datetime.now(UTC))
