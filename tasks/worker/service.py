"""This process's runner: begun by its worker, kicked by messages, stopped with it."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Collection
from concurrent.futures import Future

from agents.skills import skill_registry
from config import live
from core.ids import UserId
from database import database_executor
from database.errors import DatabaseDown
from providers import sync_bridge
from tasks.agent_triggers import boot_triggers
from tasks.agent_triggers.scheduler import Clock
from tasks.config import TASKS
from tasks.queue import lease_recovery, worker_notifier
from tasks.worker.runner import Runner
from telemetry.live_turns.live_publisher import Reporter
from turns.structured_output import schema_workers
from turns.tools import mcp_sessions

DRAIN_SECONDS = 5.0
"""For running tasks to end; three seconds later the process is cut off."""

logger = logging.getLogger(__name__)


def slots() -> int:
    """Return how many tasks this process may do at a time, by the YAML as it is now."""
    settings = live.current().get(TASKS)
    return settings.workers if settings.enabled else 0


def workers() -> int:
    """Return how many tasks a command does at a time, for those it asked for."""
    return live.current().get(TASKS).workers


class Service:
    """A runner with all that agents need in a process, on the shared event loop."""

    def __init__(
        self,
        *,
        users: Collection[UserId] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """With `users` it works for them alone, with `only` at tasks of some kinds:
        even where `tasks:` is off."""
        self._users = users
        self._only = only
        self._runner: Runner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beside: list[asyncio.Task[None]] = []
        """The clock of triggers, and who tells what happens."""
        self._running: Future[None] | None = None
        self._skills = skill_registry.Watcher(live.current())
        self._has_begun = threading.Event()

    def start(self) -> None:
        """Begin to work."""
        self._skills.start()
        self._running = sync_bridge.begin(self._run())
        self._has_begun.wait()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._users is None and self._only is None:
            self._runner = Runner(slots)
        else:
            self._runner = Runner(workers, users=self._users, only=self._only)
        self._has_begun.set()
        await _sweep()
        if self._users is None and self._only is None:
            for coroutine in (Clock(self._spread).run(), Reporter().run()):
                self._beside.append(asyncio.create_task(coroutine))
        await self._runner.run()

    def _spread(self) -> None:
        """Have the work looked at here, and by other workers if this one has none
        of its hands free."""
        self.kick()
        worker_notifier.soon()

    def kick(self) -> None:
        """Look for work at once; from any thread."""
        if self._runner is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._runner.kick)

    def stop(self) -> None:
        """Let what is running end, put back the rest, close what agents had open."""
        if self._runner is None:
            return
        sync_bridge.wait(self._wind_up(self._runner), timeout_seconds=DRAIN_SECONDS + 2)
        self._skills.stop()

    async def _wind_up(self, runner: Runner) -> None:
        for task in self._beside:
            task.cancel()
        if self._beside:
            with contextlib.suppress(DatabaseDown):
                await database_executor.run_to_end(boot_triggers.leave)
        await runner.stop(DRAIN_SECONDS)
        await mcp_sessions.close()
        await schema_workers.close()


async def _sweep() -> None:
    """Take up what was lost; the next sweep does what this one cannot."""
    try:
        await database_executor.run_to_end(lease_recovery.sweep)
    except DatabaseDown:
        pass
    except Exception:
        # A fault of ours, which must not keep the queue waiting.
        logger.exception("could not look for lost tasks")


_service: Service | None = None


def start() -> None:
    """Work the queue off in this process from now on."""
    global _service
    _service = Service()
    _service.start()


def kick() -> None:
    """Have this process look for work, if it does any."""
    if _service is not None:
        _service.kick()


def stop() -> None:
    """Stop working."""
    if _service is not None:
        _service.stop()
