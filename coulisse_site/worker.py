"""Worker processes: what runs beside the tasks when Celery starts a worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from celery import signals

from tasks.worker import service
from telemetry.live_turns.live_publisher import LivePublisher
from turns.agent_tasks import worker_resources


@signals.worker_init.connect
def start_service(**_: Any) -> None:
    """Prepare this process for tasks; it needs no broker."""
    service.start(resources=[worker_resources.opened], companions=[publish_activity])


@asynccontextmanager
async def publish_activity() -> AsyncIterator[None]:
    """Publish this process's activity to viewers of the studio."""
    publisher = asyncio.create_task(LivePublisher().run())
    try:
        yield
    finally:
        publisher.cancel()
