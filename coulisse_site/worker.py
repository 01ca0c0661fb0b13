"""Worker processes: signal handlers that start the runner of the task queue."""

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
def begin(**_: Any) -> None:
    """Begin to work, even before the broker is there."""
    service.start(
        resources=[worker_resources.opened],
        companions=[scheduler.running, reporting],
    )


@asynccontextmanager
async def reporting(_: Callable[[], None]) -> AsyncIterator[None]:
    """Publish this process's activity to viewers of the studio."""
    publishing = asyncio.create_task(LivePublisher().run())
    try:
        yield
    finally:
        publishing.cancel()
