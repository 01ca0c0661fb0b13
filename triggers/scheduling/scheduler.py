"""Runs crons and recovers tasks of dead workers: a scheduler in each worker process.

Any number of them may run. It needs no broker: it adds rows and notifies this process's
runner.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta

from config import live
from config.sections import Config
from database import database_executor
from database.errors import DatabaseDown
from tasks.queue import lease_recovery
from triggers import config as trigger_config
from triggers.config import CronTrigger
from triggers.runs import run_log
from triggers.runs.trigger_runs import TriggerRun
from triggers.scheduling import boot_triggers, cron_triggers

MAX_SLEEP_SECONDS = 1.0
"""Maximum delay until edits of the YAML and clock changes take effect."""
HEARTBEAT_INTERVAL = timedelta(seconds=10)
SWEEP_INTERVAL = timedelta(seconds=30)
"""Maximum delay until a task of a dead worker is recovered after its lease."""
CLOCK_JUMP = timedelta(seconds=60)
NEVER = datetime.max.replace(tzinfo=UTC)

logger = logging.getLogger(__name__)


class TriggerScheduler:
    """Runs crons when they are due, and boot triggers once at its start."""

    def __init__(
        self,
        notify: Callable[[], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`notify` is called after tasks were added."""
        self._notify = notify
        self._now = now
        self._has_run_boot_triggers = False
        self._config: Config | None = None
        self._scheduled: dict[str, CronTrigger] | None = None
        self._ticks: dict[str, datetime] = {}
        """The due time of each cron."""
        self._checked_at: datetime | None = None
        self._is_set_back = False
        self._heartbeat_at = datetime.min.replace(tzinfo=UTC)
        self._swept_at = self._now()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            pause = MAX_SLEEP_SECONDS
            try:
                await self.run_once()
                pause = self._pause_seconds()
            except DatabaseDown:
                pass  # The next round retries, and missed ticks run late.
            except Exception:
                logger.exception("could not run due triggers")
            await asyncio.sleep(pause)

    async def run_once(self) -> None:
        """Run everything that is due."""
        config, now = live.current(), self._now()
        if not self._has_run_boot_triggers:
            self._notify_if_started(
                await database_executor.run_to_end(
                    boot_triggers.run_boot_triggers, config, now
                )
            )
            self._has_run_boot_triggers, self._heartbeat_at = True, now
        if now - self._heartbeat_at >= HEARTBEAT_INTERVAL:
            await database_executor.run_to_end(boot_triggers.record_heartbeat, now)
            self._heartbeat_at = now
        if self._needs_scheduling(config, now):
            await self._schedule(config, now)
        due = [name for name, tick in self._ticks.items() if tick <= now]
        if due:
            self._notify_if_started(
                await database_executor.run_to_end(
                    cron_triggers.run_due_triggers, config, now, due
                )
            )
            self._schedule_next(due, now)
        # Last, so that a failure delays nothing else.
        if not now - SWEEP_INTERVAL < self._swept_at <= now:
            self._swept_at = now
            if await database_executor.run_to_end(lease_recovery.recover_leases):
                self._notify()

    def _needs_scheduling(self, config: Config, now: datetime) -> bool:
        """Return whether crons were edited or the machine's clock was set back."""
        before, self._checked_at = self._checked_at, now
        if before is not None and now < before - CLOCK_JUMP:
            self._is_set_back = True
        if config is not self._config and self._scheduled == _by_name(config):
            self._config = config
        return self._is_set_back or config is not self._config

    async def _schedule(self, config: Config, now: datetime) -> None:
        await database_executor.run_to_end(cron_triggers.schedule_triggers, config, now)
        before, self._scheduled = self._scheduled or {}, _by_name(config)
        self._config, self._is_set_back = config, False
        # All are due at first, to process the ticks before this start.
        self._ticks = dict.fromkeys(self._scheduled, now)
        for name, trigger in self._scheduled.items():
            if before.get(name) != trigger:
                run_log.log_scheduled(trigger, next(trigger.times.after(now), None))

    def _schedule_next(self, names: Iterable[str], now: datetime) -> None:
        for name in names:
            tick = next((self._scheduled or {})[name].times.after(now), None)
            self._ticks[name] = NEVER if tick is None else tick

    def _pause_seconds(self) -> float:
        next_at = min(self._ticks.values(), default=NEVER)
        seconds = (next_at - self._now()).total_seconds()
        return min(max(seconds, 0.0), MAX_SLEEP_SECONDS)

    def _notify_if_started(self, runs: list[TriggerRun]) -> None:
        if any(run.outcome == "started" for run in runs):
            self._notify()


@contextlib.asynccontextmanager
async def running(notify: Callable[[], None]) -> AsyncIterator[None]:
    """Run triggers in this worker until the block ends."""
    scheduler = asyncio.create_task(TriggerScheduler(notify).run())
    try:
        yield
    finally:
        scheduler.cancel()
        with contextlib.suppress(DatabaseDown):
            await database_executor.run_to_end(boot_triggers.deregister_worker)


def _by_name(config: Config) -> dict[str, CronTrigger]:
    return {trigger.name: trigger for trigger in trigger_config.cron_triggers(config)}
