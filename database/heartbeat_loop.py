"""The heartbeats of processes with an event loop: webs and workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from core.errors import CoulisseError
from database import database_executor, heartbeats, running_processes
from database.running_processes import HEARTBEAT_SECONDS, STATE, ProcessReport

RETRY_SECONDS = 0.5
START_SECONDS = 2.0
"""A start does not wait longer for a database that hangs."""


@asynccontextmanager
async def sent(report: Callable[[], ProcessReport]) -> AsyncIterator[None]:
    """Send heartbeats until the block ends, the first one before it begins."""
    STATE.begin()
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()
    database_executor.on_failure = lambda exc: _on_failure(exc, loop, failed)
    with suppress(TimeoutError):
        await asyncio.wait_for(_beat(report), START_SECONDS)
    sending = asyncio.create_task(_send(report, failed))
    try:
        yield
    finally:
        database_executor.on_failure = None
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        STATE.end()
        with suppress(CoulisseError):
            await database_executor.run_to_end(heartbeats.end)


def _on_failure(
    exc: Exception, loop: asyncio.AbstractEventLoop, failed: asyncio.Event
) -> None:
    """Look at once whether the database works, on the thread of the failed call."""
    if (problem := running_processes.unwritable_reason(exc)) is not None:
        STATE.refuse(problem)
    with suppress(RuntimeError):  # The loop has just ended.
        loop.call_soon_threadsafe(failed.set)


async def _send(report: Callable[[], ProcessReport], failed: asyncio.Event) -> None:
    while True:
        if not STATE.problem:
            with suppress(TimeoutError):
                await asyncio.wait_for(failed.wait(), HEARTBEAT_SECONDS)
        failed.clear()
        await _beat(report)
        await asyncio.sleep(RETRY_SECONDS)


async def _beat(report: Callable[[], ProcessReport]) -> None:
    try:
        fleet = await database_executor.run(
            heartbeats.beat, report(), needs_space=STATE.needs_space
        )
    except CoulisseError as exc:
        STATE.fail(str(exc.__cause__ or exc))
    else:
        STATE.succeed(fleet)
