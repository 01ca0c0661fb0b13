"""Worker processes: what runs beside the tasks when Celery starts a worker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from celery import signals

from config import live
from database import heartbeat_loop
from processes.process_reports import report_of
from providers.transport import circuit_sharing
from tasks.worker import service
from telemetry.live_turns.live_publisher import LivePublisher
from telemetry.metrics import recording
from telemetry.tracing import exporter
from turns.agent_tasks import worker_resources


@signals.worker_init.connect
def start_service(**_: Any) -> None:
    """Prepare this process for tasks; it needs no broker."""
    service.start(
        resources=[
            export_traces,
            lambda: recording.sampled("worker"),
            lambda: heartbeat_loop.sent(report_of("worker")),
            worker_resources.opened,
        ],
        companions=[
            # For viewers of the studio.
            lambda: _running(LivePublisher().run),
            lambda: _running(circuit_sharing.run),
        ],
    )


@asynccontextmanager
async def _running(run: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def export_traces() -> AsyncIterator[None]:
    """Load what exports of spans need; send the last ones at the end."""
    await asyncio.to_thread(exporter.warm, live.current())
    try:
        yield
    finally:
        await asyncio.to_thread(exporter.close)
