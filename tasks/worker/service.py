"""This process's executor: started and stopped with its worker, called by Celery."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from config import live
from core.runtime import process_stop
from database import database_executor
from database.errors import DatabaseDown
from providers import sync_bridge
from tasks.config import TASKS
from tasks.queue import lease_recovery, publisher
from tasks.worker.executor import ClaimCallback, TaskExecutor

CLOSE_SECONDS = 2.0
"""Time to release tasks and to close the resources."""

logger = logging.getLogger(__name__)

Context = Callable[[], AbstractAsyncContextManager[None]]

_executor: TaskExecutor | None = None
_open = AsyncExitStack()


def start(*, resources: Sequence[Context], companions: Sequence[Context]) -> None:
    """Prepare this process for tasks.

    `resources` are open from the first task to the last; `companions` are activities
    beside them, which end first.
    """
    _start(resources, companions).result()


def _start(resources: Sequence[Context], companions: Sequence[Context]) -> Future[None]:
    return sync_bridge.start(_enter(resources, companions))


async def _enter(resources: Sequence[Context], companions: Sequence[Context]) -> None:
    global _executor
    executor = _executor = TaskExecutor(publisher.notify)
    for resource in resources:
        await _open.enter_async_context(resource())
    _open.push_async_callback(lambda: executor.stop(drain_seconds()))
    for companion in companions:
        await _open.enter_async_context(companion())
    await recover()


async def recover() -> None:
    """Recover tasks of dead workers; if this fails, the next recovery does it."""
    try:
        await database_executor.run_to_end(lease_recovery.recover_leases)
        await database_executor.run_to_end(lease_recovery.publish_permits)
    except DatabaseDown:
        pass
    except Exception:
        # A bug here must not stop the queue.
        logger.exception("could not recover tasks of dead workers")


def run_next(kind: str, on_claim: ClaimCallback | None = None) -> None:
    """Run the next task of a kind; return when it has ended, and has a successor."""
    if _executor is not None:
        for name in sync_bridge.start(_executor.run_next(kind, on_claim)).result():
            publisher.send_now(name)


def stop() -> None:
    """Let running tasks finish, release the rest, and close the resources."""
    seconds = drain_seconds() + CLOSE_SECONDS
    sync_bridge.run_sync(_open.aclose(), timeout_seconds=seconds)
    publisher.flush()


def drain_seconds() -> float:
    """Return how long running tasks may go on when this process stops."""
    return process_stop.limit(live.current().get(TASKS).drain_seconds)
