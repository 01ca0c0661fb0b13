"""Runs the queue: claims tasks, extends their leases, completes them.

Each process has one, on the event loop that all agent code shares. It checks the queue
when it is notified, when a task ends, and every few seconds, so a lost message delays a
task by that long.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial

from config import live
from core.errors import CoulisseError
from core.ids import UserId
from core.runtime import request_ids
from database import database_executor
from database.errors import DatabaseDown
from tasks.config import TASKS
from tasks.errors import TaskTimedOut
from tasks.queue import claim, lease_recovery, lifecycle, task_kinds
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome
from tasks.worker import retry_policy
from telemetry.live_turns.active_turns import ACTIVE_TURNS

POLL_SECONDS = 5.0
CANCEL_SECONDS = 1.0
"""Time for a cancelled task to close its streams."""
HEARTBEAT_SECONDS = 1.0
"""Delay until a requested cancellation takes effect."""
HEARTBEATS_PER_LEASE = 10
"""Leases are extended every so many heartbeats; a lease lasts three times as long."""

logger = logging.getLogger(__name__)


class TaskRunner:
    """Runs a limited number of tasks at a time."""

    def __init__(
        self,
        slots: Callable[[], int],
        *,
        users: Collection[UserId] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """`slots` returns the limit; it is called at each check, so edits take effect.

        `users` and `only`, a list of kinds, restrict it to some tasks, for a command
        that runs its own tasks.
        """
        self._slots = slots
        self._users = users
        self._only = only
        self._running: dict[ClaimedTask, asyncio.Task[None]] = {}
        self._check_requested = asyncio.Event()
        self._is_stopping = False
        self._claim_lock = asyncio.Lock()

    async def run(self) -> None:
        """Run tasks until `stop` is called."""
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while not self._is_stopping:
                self._check_requested.clear()
                if not await self._claim():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(POLL_SECONDS):
                            await self._check_requested.wait()
            if self._running:
                # A cancellation during the wait takes effect at once.
                await asyncio.wait(self._running.values())
        finally:
            heartbeat.cancel()

    def check_queue(self) -> None:
        """Check the queue at once. Call it on the event loop's own thread."""
        self._check_requested.set()

    async def stop(self, seconds: float) -> None:
        """Claim no more tasks; after so many seconds release those still running."""
        async with self._claim_lock:
            self._is_stopping = True
        self._check_requested.set()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)
        if unfinished := dict(self._running):
            logger.info("requeued %d tasks: this worker stops", len(unfinished))
            # Released first, so that they store nothing afterwards.
            await database_executor.run_to_end(
                lifecycle.release_leases, list(unfinished)
            )
            for execution in unfinished.values():
                execution.cancel()
            await asyncio.wait(unfinished.values(), timeout=CANCEL_SECONDS)

    async def _claim(self) -> bool:
        """Claim tasks for the free slots; return whether there may be more."""
        async with self._claim_lock:
            free = self._slots() - len(self._running)
            if free <= 0 or self._is_stopping:
                return False
            kinds, limit = self._claimable_kinds(free)
            try:
                claimed = await database_executor.run_to_end(
                    claim.claim_tasks,
                    limit,
                    kinds,
                    users=self._users,
                    once=lease_recovery.non_repeatable_kinds(),
                )
            except DatabaseDown:
                return False
            except Exception:
                # A bug here must not end the loop.
                logger.exception("could not claim tasks")
                return False
            for task in claimed:
                execution = asyncio.create_task(self._run_task(task))
                self._running[task] = execution
                execution.add_done_callback(partial(self._release_slot, task))
                ACTIVE_TURNS.mark_tasks_changed()
            return len(claimed) == limit

    def _claimable_kinds(self, free: int) -> tuple[Collection[str], int]:
        """Return the kinds that may be claimed, and the maximum number of tasks.

        Background kinds leave one slot of two or more to the others, because they may
        hang, for example on a judge's model, while a user waits.
        """
        if self._only is not None:
            return self._only, free
        interactive = task_kinds.interactive_names()
        background = sum(task.kind not in interactive for task in self._running)
        limit = max(len(self._running) + free - 1, 1) - background
        if limit > 0:
            return task_kinds.names(), min(free, limit)
        return interactive, free

    def _release_slot(self, task: ClaimedTask, _: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        self._check_requested.set()
        ACTIVE_TURNS.mark_tasks_changed()

    async def _run_task(self, task: ClaimedTask) -> None:
        request_ids.current.set(task.request_id or f"task_{task.id.hex}")
        try:
            await self._execute_and_close(task)
        except DatabaseDown:
            logger.error(
                "task %s not closed: database unavailable; its lease will expire",
                task.id,
            )
        except Exception:
            logger.exception("task %s not closed; its lease will expire", task.id)

    async def _execute_and_close(self, task: ClaimedTask) -> None:
        try:
            outcome = await self._execute(task)
            if not outcome.is_closed:
                await database_executor.run_to_end(
                    lifecycle.complete_with, task, outcome.result, outcome.write
                )
        except lifecycle.LeaseLost:
            logger.info("task %s: lease lost", task.id)
            await database_executor.run_to_end(lifecycle.close_cancelled, task)
        except asyncio.CancelledError:
            await database_executor.run_to_end(lifecycle.close_cancelled, task)
        except DatabaseDown:
            raise
        except Exception as exc:
            if not isinstance(exc, CoulisseError):
                logger.exception("task %s", task.id)
            is_final = not retry_policy.is_retryable(exc)
            is_errored = await database_executor.run_to_end(
                lifecycle.record_failure, task, exc, is_final=is_final
            )
            logger.warning(
                "task %s of %s failed after %d attempts: %s"
                if is_errored
                else "task %s of %s failed attempt %d, retrying: %s",
                task.id,
                task.agent,
                task.attempts,
                lifecycle.describe_error(exc),
            )

    async def _execute(self, task: ClaimedTask) -> TaskOutcome:
        kind = task_kinds.get(task.kind)
        if kind is None:
            raise LookupError(f"no handler for tasks of kind '{task.kind}'")
        seconds = live.current().get(TASKS).timeout_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await kind.run(task)
        except TimeoutError as exc:
            if not deadline.expired():
                raise
            raise TaskTimedOut(seconds) from exc

    async def _heartbeat(self) -> None:
        """Extend the leases, and stop cancelled tasks."""
        due = HEARTBEATS_PER_LEASE
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            due -= 1
            running = dict(self._running)
            if not running:
                continue
            try:
                if due <= 0:
                    await database_executor.run_to_end(
                        lifecycle.extend_leases, list(running)
                    )
                    due = HEARTBEATS_PER_LEASE
                cancelled = await database_executor.run(
                    lifecycle.cancelled_ids, list(running)
                )
            except DatabaseDown:
                continue
            except Exception:
                logger.exception(
                    "could not extend the leases of %d tasks", len(running)
                )
                continue
            for task, execution in running.items():
                if task.id in cancelled:
                    execution.cancel()
