"""Worker processes: starts the task queue's runner when Celery starts a worker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from celery import signals

from tasks.worker import service
from telemetry.live_turns.live_publisher import LivePublisher
from triggers.scheduling import scheduler
from turns.agent_tasks import worker_resources


@signals.worker_init.connect
def start_service(**_: Any) -> None:
    """Start the runner; it needs no broker."""
    service.start(
        resources=[worker_resources.opened],
        companions=[scheduler.running, publish_activity],
    )


@asynccontextmanager
async def publish_activity(_: Callable[[], None]) -> AsyncIterator[None]:
    """Publish this process's activity to viewers of the studio."""
    publisher = asyncio.create_task(LivePublisher().run())
    try:
        yield
    finally:
        publisher.cancel()
