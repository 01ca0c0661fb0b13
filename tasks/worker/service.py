"""This process's runner: begun by its worker, kicked by messages, stopped with it."""

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
"""For running tasks to end; three seconds later the process is cut off."""

logger = logging.getLogger(__name__)

Resource = Callable[[], AbstractAsyncContextManager[None]]
"""What the work needs: it is opened before any is taken, and closed after the last."""
Companion = Callable[[Callable[[], None]], AbstractAsyncContextManager[None]]
"""What goes on beside the work, and ends before it does. It is handed a function that
has workers look for more.
"""


def configured_slots() -> int:
    """Return how many tasks this process may do at a time, by the YAML as it is now."""
    settings = live.current().get(TASKS)
    return settings.workers if settings.enabled else 0


def command_slots() -> int:
    """Return how many tasks a command does at a time, for those it asked for."""
    return live.current().get(TASKS).workers


class WorkerService:
    """A runner with all that its work needs in a process, on the shared event loop."""

    def __init__(
        self,
        *,
        users: Collection[UserId] | None = None,
        only: Collection[str] | None = None,
        resources: Sequence[Resource] = (),
        companions: Sequence[Companion] = (),
    ) -> None:
        """With `users` it works for them alone, with `only` at tasks of some kinds:
        even where `tasks:` is off."""
        self._users = users
        self._only = only
        self._runner: TaskRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._resources, self._opened = resources, AsyncExitStack()
        self._companions, self._accompanied = companions, AsyncExitStack()
        self._running: Future[None] | None = None
        self._has_begun = threading.Event()

    def start(self) -> None:
        """Begin to work."""
        self._running = sync_bridge.start(self._run())
        self._has_begun.wait()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._users is None and self._only is None:
            self._runner = TaskRunner(configured_slots)
        else:
            self._runner = TaskRunner(command_slots, users=self._users, only=self._only)
        try:
            for resource in self._resources:
                await self._opened.enter_async_context(resource())
        finally:
            self._has_begun.set()
        await _recover_leases()
        for companion in self._companions:
            await self._accompanied.enter_async_context(companion(self._notify_workers))
        await self._runner.run()

    def _notify_workers(self) -> None:
        """Have the work looked at here, and by other workers if this one has none
        of its hands free."""
        self.kick()
        worker_notifier.notify()

    def kick(self) -> None:
        """Look for work at once; from any thread."""
        if self._runner is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._runner.kick)

    def stop(self) -> None:
        """Let what is running end, put back the rest, close what it needed."""
        if self._runner is None:
            return
        sync_bridge.run_sync(
            self._shut_down(self._runner), timeout_seconds=DRAIN_SECONDS + 2
        )

    async def _shut_down(self, runner: TaskRunner) -> None:
        await self._accompanied.aclose()
        await runner.stop(DRAIN_SECONDS)
        await self._opened.aclose()


async def _recover_leases() -> None:
    """Take up what was lost; the next sweep does what this one cannot."""
    try:
        await database_executor.run_to_end(lease_recovery.recover_leases)
    except DatabaseDown:
        pass
    except Exception:
        # A fault of ours, which must not keep the queue waiting.
        logger.exception("could not look for lost tasks")


_service: WorkerService | None = None


def start(resources: Sequence[Resource], companions: Sequence[Companion]) -> None:
    """Work the queue off in this process from now on."""
    global _service
    _service = WorkerService(resources=resources, companions=companions)
    _service.start()


def kick() -> None:
    """Have this process look for work, if it does any."""
    if _service is not None:
        _service.kick()


def stop() -> None:
    """Stop working."""
    if _service is not None:
        _service.stop()
