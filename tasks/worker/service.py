"""This process's runner: started and stopped with its worker, notified by messages."""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from config import live
from core.ids import UserId
from database import database_executor
from database.errors import DatabaseDown
from providers import sync_bridge
from tasks.config import TASKS
from tasks.queue import lease_recovery, worker_notifier
from tasks.worker.runner import TaskRunner

DRAIN_SECONDS = 5.0
"""Time for running tasks to finish; three seconds later the process is killed."""

logger = logging.getLogger(__name__)

Resource = Callable[[], AbstractAsyncContextManager[None]]
"""A resource of the tasks: opened before the first claim, closed after the last task.
"""
Companion = Callable[[Callable[[], None]], AbstractAsyncContextManager[None]]
"""A background activity beside the runner, which stops before it. It receives a
function that notifies workers.
"""


def configured_slots() -> int:
    """Return the number of slots of this process, from the current YAML."""
    settings = live.current().get(TASKS)
    return settings.workers if settings.enabled else 0


def command_slots() -> int:
    """Return the number of slots for the tasks of a command."""
    return live.current().get(TASKS).workers


class WorkerService:
    """A runner with its resources, on the shared event loop."""

    def __init__(
        self,
        *,
        users: Collection[UserId] | None = None,
        only: Collection[str] | None = None,
        resources: Sequence[Resource] = (),
        companions: Sequence[Companion] = (),
    ) -> None:
        """`users` and `only`, a list of kinds, restrict it to some tasks; these run
        even if `tasks.enabled` is false.
        """
        self._users = users
        self._only = only
        self._runner: TaskRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._resources, self._open_resources = resources, AsyncExitStack()
        self._companions, self._open_companions = companions, AsyncExitStack()
        self._running: Future[None] | None = None
        self._has_started = threading.Event()

    def start(self) -> None:
        """Start the runner."""
        self._running = sync_bridge.start(self._run())
        self._has_started.wait()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._users is None and self._only is None:
            self._runner = TaskRunner(configured_slots)
        else:
            self._runner = TaskRunner(command_slots, users=self._users, only=self._only)
        try:
            for resource in self._resources:
                await self._open_resources.enter_async_context(resource())
        finally:
            self._has_started.set()
        await _recover_leases()
        for companion in self._companions:
            await self._open_companions.enter_async_context(
                companion(self._notify_workers)
            )
        await self._runner.run()

    def _notify_workers(self) -> None:
        """Notify this process's runner, and other workers if it has no free slot."""
        self.check_queue()
        worker_notifier.notify()

    def check_queue(self) -> None:
        """Check the queue at once; callable from any thread."""
        if self._runner is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._runner.check_queue)

    def stop(self) -> None:
        """Let running tasks finish, release the rest, and close the resources."""
        if self._runner is None:
            return
        sync_bridge.run_sync(
            self._shut_down(self._runner), timeout_seconds=DRAIN_SECONDS + 2
        )

    async def _shut_down(self, runner: TaskRunner) -> None:
        await self._open_companions.aclose()
        await runner.stop(DRAIN_SECONDS)
        await self._open_resources.aclose()


async def _recover_leases() -> None:
    """Recover tasks of dead workers; if this fails, the next sweep recovers them."""
    try:
        await database_executor.run_to_end(lease_recovery.recover_leases)
    except DatabaseDown:
        pass
    except Exception:
        # A bug here must not stop the queue.
        logger.exception("could not recover tasks of dead workers")


_service: WorkerService | None = None


def start(resources: Sequence[Resource], companions: Sequence[Companion]) -> None:
    """Start the runner of this process."""
    global _service
    _service = WorkerService(resources=resources, companions=companions)
    _service.start()


def check_queue() -> None:
    """Notify this process's runner, if there is one."""
    if _service is not None:
        _service.check_queue()


def stop() -> None:
    """Stop the runner."""
    if _service is not None:
        _service.stop()
