"""Runs tasks: each call claims one row of the queue, runs it and completes it.

All calls share the process's event loop, on which handlers wait for models. One
heartbeat extends the leases of all running tasks.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from config import live
from core.errors import CoulisseError
from core.ids import UserId
from core.runtime import request_ids
from database import database_executor
from database.errors import DatabaseDown
from tasks.config import TASKS
from tasks.errors import LeaseLost, TaskTimedOut, describe_error
from tasks.queue import task_kinds
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskKind, TaskOutcome
from tasks.worker import leases, retry_policy
from tasks.worker.slots import Slots, configured_limit
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from telemetry.metrics import recording
from telemetry.tracing import task_spans
from telemetry.tracing.task_spans import TracedTask

CANCEL_SECONDS = 1.0
"""Time for a cancelled task to close its streams."""
HEARTBEAT_SECONDS = 1.0
"""Delay until a requested cancellation takes effect."""
HEARTBEATS_PER_LEASE = 10
"""Leases are extended every so many heartbeats; a lease lasts three times as long."""

logger = logging.getLogger(__name__)

ClaimCallback = Callable[[ClaimedTask], None]


class TaskExecutor:
    """Runs the tasks of one process. Use it on one event loop only."""

    def __init__(
        self,
        publish: Callable[[str], None],
        *,
        limit: Callable[[str], int] = configured_limit,
        users: Collection[UserId] | None = None,
    ) -> None:
        """`publish` publishes a permit of a kind; with `users` only their tasks run."""
        self._publish = publish
        self._slots = Slots(limit)
        self._users = users
        self._running: dict[ClaimedTask, asyncio.Task[None]] = {}
        self._claim_lock = asyncio.Lock()
        self._is_stopping = False
        self._heartbeat: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._running

    async def run_next(
        self, name: str, on_claim: ClaimCallback | None = None
    ) -> list[str]:
        """Run the next task of a kind; do nothing without a slot or a due task.

        `on_claim` receives the task before it runs. While more tasks are due, each
        claim publishes a permit for a free slot, and each end returns the kinds of
        which its caller publishes one.
        """
        kind = task_kinds.get(name)
        if kind is None:
            return []
        if not self._slots.take(kind):
            self._start_heartbeat()
            return []
        try:
            task = await self._claim(kind)
            if task is not None:
                if on_claim is not None:
                    on_claim(task)
                # A cancellation of the execution does not reach this coroutine.
                await asyncio.wait([self._running[task]])
                if kind.is_ordered:
                    # The next task of its user can run now.
                    self._slots.set_backlog(kind, has_backlog=True)
        except DatabaseDown:
            pass  # Recovery publishes the permit again.
        except Exception:
            logger.exception("could not claim a task of kind '%s'", name)
        finally:
            self._slots.give_back(kind)
        return [] if self._is_stopping else self._slots.request_next()

    async def _claim(self, kind: TaskKind) -> ClaimedTask | None:
        """Claim the next task of a kind, and start it."""
        async with self._claim_lock:
            if self._is_stopping:
                return None
            task = await database_executor.run_to_end(
                leases.claim_next, kind, self._users
            )
            has_more = task is not None and task.has_more
            self._slots.set_backlog(kind, has_backlog=has_more)
            if task is None:
                return None
            self._running[task] = asyncio.create_task(self._run(kind, task))
        self._start_heartbeat()
        ACTIVE_TURNS.mark_tasks_changed()
        if has_more and self._slots.request(kind):
            self._publish(kind.name)
        return task

    async def stop(self, seconds: float) -> None:
        """Claim no more tasks; after so many seconds release those still running."""
        async with self._claim_lock:
            self._is_stopping = True
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)
        if unfinished := dict(self._running):
            logger.info("requeued %d tasks: this worker stops", len(unfinished))
            # Released first, so that they store nothing afterwards.
            await database_executor.run_to_end(leases.release, list(unfinished))
            for execution in unfinished.values():
                execution.cancel()
            await asyncio.wait(unfinished.values(), timeout=CANCEL_SECONDS)

    async def _run(self, kind: TaskKind, task: ClaimedTask) -> None:
        request_ids.current.set(task.request_id or f"task_{task.id.hex}")
        try:
            await self._run_and_close(kind, task)
        except DatabaseDown:
            logger.error(
                "task %s not closed: database unavailable; its lease will expire",
                task.id,
            )
        except Exception:
            logger.exception("task %s not closed; its lease will expire", task.id)
        finally:
            del self._running[task]
            ACTIVE_TURNS.mark_tasks_changed()

    async def _run_and_close(self, kind: TaskKind, task: ClaimedTask) -> None:
        try:
            outcome = await self._handle(kind, task)
            if not outcome.is_closed:
                await database_executor.run_to_end(
                    task.complete, outcome.result, outcome.write
                )
        except LeaseLost:
            logger.info("task %s: lease lost", task.id)
            if recording.active is not None:
                recording.active.leases_lost(1)
            await database_executor.run_to_end(task.close_cancelled)
        except asyncio.CancelledError:
            await database_executor.run_to_end(task.close_cancelled)
        except DatabaseDown:
            raise
        except Exception as exc:
            if not isinstance(exc, CoulisseError):
                logger.exception("task %s", task.id)
            is_final = not retry_policy.is_retryable(exc)
            is_errored = await database_executor.run_to_end(
                task.fail, exc, is_final=is_final
            )
            logger.warning(
                "task %s of %s failed after %d attempts: %s"
                if is_errored
                else "task %s of %s failed attempt %d, retrying: %s",
                task.id,
                task.agent,
                task.attempts,
                describe_error(exc),
            )

    async def _handle(self, kind: TaskKind, task: ClaimedTask) -> TaskOutcome:
        seconds = live.current().get(TASKS).timeout_seconds
        with task_spans.recorded(_traced(task)):
            try:
                async with asyncio.timeout(seconds) as deadline:
                    return await kind.load_handler()(task)
            except TimeoutError as exc:
                if not deadline.expired():
                    raise
                raise TaskTimedOut(seconds) from exc

    def _start_heartbeat(self) -> None:
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Beat while tasks run or wait for a slot."""
        beats = 0
        while self._running or self._slots.has_backlog:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            # An edit may have added slots, or a full worker received the last permit.
            self._slots.forget_requests()
            for name in [] if self._is_stopping else self._slots.request_next():
                self._publish(name)
            beats += 1
            if running := dict(self._running):
                await self._keep_leases(
                    running, extend=beats % HEARTBEATS_PER_LEASE == 0
                )

    async def _keep_leases(
        self, running: dict[ClaimedTask, asyncio.Task[None]], *, extend: bool
    ) -> None:
        """Extend the leases, and stop cancelled tasks."""
        try:
            stopped = await database_executor.run_to_end(
                leases.check, list(running), extend=extend
            )
        except DatabaseDown:
            return
        except Exception:
            logger.exception("could not check the leases of %d tasks", len(running))
            return
        for task, execution in running.items():
            if task.id in stopped:
                execution.cancel()


def _traced(task: ClaimedTask) -> TracedTask:
    return TracedTask(
        task.id,
        task.kind,
        task.agent,
        task.origin,
        task.user_id,
        task.attempts,
        task.traceparent,
    )
