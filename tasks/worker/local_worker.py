"""Runs a command's own tasks in its process, without a broker or a worker."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress

from core.ids import UserId
from providers import sync_bridge
from tasks.queue import publisher
from tasks.worker.executor import TaskExecutor
from tasks.worker.service import Context, recover
from tasks.worker.slots import command_limit

DRAIN_SECONDS = 5.0
POLL_SECONDS = 0.1
WATCH_SECONDS = 0.05


def run_tasks(
    kinds: Collection[str],
    watch: Callable[[], bool],
    check_interrupt: Callable[[], None],
    *,
    cancel: Callable[[], object] = lambda: None,
    users: Collection[UserId] | None = None,
    resources: Sequence[Context] = (),
) -> None:
    """Run tasks as `running_tasks` does, until `watch` returns that none is left.

    `watch` is called regularly, and shows the progress; so is `check_interrupt`. After
    an exception of either, `cancel` is called before running tasks are waited for.
    """
    with running_tasks(kinds, users=users, resources=resources):
        try:
            while not watch():
                check_interrupt()
                time.sleep(WATCH_SECONDS)
        except BaseException:
            cancel()
            raise


@contextmanager
def running_tasks(
    kinds: Collection[str],
    *,
    users: Collection[UserId] | None = None,
    resources: Sequence[Context] = (),
) -> Iterator[None]:
    """Run tasks of these kinds until the block ends, also if `tasks.enabled` is false.

    With `users` only theirs. This process publishes no permits to workers.
    """
    publisher.use_sender(lambda kind: None)
    stopping = asyncio.Event()
    work = sync_bridge.start(_work(kinds, users, resources, stopping))
    try:
        yield
    finally:
        sync_bridge.run_sync(_set(stopping), timeout_seconds=DRAIN_SECONDS)
        work.result()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _work(
    kinds: Collection[str],
    users: Collection[UserId] | None,
    resources: Sequence[Context],
    stopping: asyncio.Event,
) -> None:
    permits: set[asyncio.Task[None]] = set()

    def publish(kind: str) -> None:
        permit = asyncio.create_task(run(kind))
        permits.add(permit)
        permit.add_done_callback(permits.discard)

    async def run(kind: str) -> None:
        for name in await executor.run_next(kind):
            publish(name)

    executor = TaskExecutor(publish, limit=command_limit, users=users)
    async with AsyncExitStack() as stack:
        for resource in resources:
            await stack.enter_async_context(resource())
        await recover()
        while not stopping.is_set():
            for kind in kinds:
                publish(kind)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await stopping.wait()
        await executor.stop(DRAIN_SECONDS)
