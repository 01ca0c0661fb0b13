"""The heartbeats of processes with an event loop: webs and workers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
    failed, stopped = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    database_executor.on_failure = lambda exc: _on_failure(exc, loop, failed)
    await _within(START_SECONDS, _beat(report))
    sending = asyncio.create_task(_send(report, failed, stopped))
    try:
        yield
    finally:
        database_executor.on_failure = None
        stopped.set()
        failed.set()
        # A heartbeat that is on its way would bring the row back.
        await _within(START_SECONDS, sending)
        STATE.end()
        with suppress(CoulisseError):
            await database_executor.run_to_end(heartbeats.end)


async def _within(seconds: float, work: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(work, seconds)


def _on_failure(
    exc: Exception, loop: asyncio.AbstractEventLoop, failed: asyncio.Event
) -> None:
    """Look at once whether the database works, on the thread of the failed call."""
    if (problem := running_processes.unwritable_reason(exc)) is not None:
        STATE.refuse(problem)
    with suppress(RuntimeError):  # The loop has just ended.
        loop.call_soon_threadsafe(failed.set)


async def _send(
    report: Callable[[], ProcessReport], failed: asyncio.Event, stopped: asyncio.Event
) -> None:
    while not stopped.is_set():
        if not STATE.problem:
            await _within(HEARTBEAT_SECONDS, failed.wait())
        if not stopped.is_set():
            failed.clear()
            await _beat(report)
            await _within(RETRY_SECONDS, stopped.wait())


async def _beat(report: Callable[[], ProcessReport]) -> None:
    try:
        fleet = await database_executor.run(
            heartbeats.beat, report(), needs_space=STATE.needs_space
        )
    except Exception as exc:  # A bug in one heartbeat must not end the others.
        STATE.fail(str(exc.__cause__ or exc))
    else:
        STATE.succeed(fleet)
