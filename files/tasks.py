"""Celery tasks of files."""

import logging
from datetime import UTC, datetime

from celery import shared_task

from files import file_store
from files.storage import content

logger = logging.getLogger(__name__)


@shared_task(name="files.tasks.delete_unused", ignore_result=True)
def delete_unused() -> None:
    """Delete the bytes of uploads that broke off and of files that are deleted."""
    content.delete_old_uploads()
    count = file_store.delete_unused(datetime.now(UTC))
    if count:
        logger.info("deleted %d unused contents of files", count)
