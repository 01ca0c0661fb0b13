"""Runs crons and recovers lost tasks: one scheduler in each worker, beside its runner.

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
from triggers.config import CronTrigger
from triggers.config import cron_triggers as crons_of
from triggers.runs import run_log
from triggers.runs.trigger_runs import TriggerRun
from triggers.scheduling import boot_triggers, cron_triggers

MAX_SLEEP_SECONDS = 1.0
"""The longest sleep: edits of the YAML and clock changes take effect after it."""
HEARTBEAT_INTERVAL = timedelta(seconds=10)
SWEEP_INTERVAL = timedelta(seconds=30)
"""How long a task of a dead worker may go unnoticed after its lease."""
CLOCK_JUMP = timedelta(seconds=60)
NEVER = datetime.max.replace(tzinfo=UTC)

logger = logging.getLogger(__name__)


class TriggerScheduler:
    """Runs crons when they are due, and boot triggers once at its start."""

    def __init__(
        self,
        kick: Callable[[], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`kick` is called when there are tasks."""
        self._kick = kick
        self._now = now
        self._has_begun = False
        self._config: Config | None = None
        self._armed: dict[str, CronTrigger] | None = None
        self._ticks: dict[str, datetime] = {}
        """The due time of each cron."""
        self._looked_at: datetime | None = None
        self._is_set_back = False
        self._stayed_at = datetime.min.replace(tzinfo=UTC)
        self._swept_at = self._now()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            pause = MAX_SLEEP_SECONDS
            try:
                await self.run_once()
                pause = self._pause_seconds()
            except DatabaseDown:
                pass  # The next round retries, and what was due meanwhile runs late.
            except Exception:
                logger.exception("the clock of triggers")
            await asyncio.sleep(pause)

    async def run_once(self) -> None:
        """Run everything that is due."""
        config, now = live.current(), self._now()
        if not self._has_begun:
            self._kick_if_fired(
                await database_executor.run_to_end(
                    boot_triggers.fire_boot_triggers, config, now
                )
            )
            self._has_begun, self._stayed_at = True, now
        if now - self._stayed_at >= HEARTBEAT_INTERVAL:
            await database_executor.run_to_end(boot_triggers.record_heartbeat, now)
            self._stayed_at = now
        if self._needs_arming(config, now):
            await self._arm(config, now)
        due = [name for name, tick in self._ticks.items() if tick <= now]
        if due:
            self._kick_if_fired(
                await database_executor.run_to_end(
                    cron_triggers.fire_due_triggers, config, now, due
                )
            )
            self._schedule_next(due, now)
        # Last, so that a failure delays nothing else.
        if not now - SWEEP_INTERVAL < self._swept_at <= now:
            self._swept_at = now
            if await database_executor.run_to_end(lease_recovery.recover_leases):
                self._kick()

    def _needs_arming(self, config: Config, now: datetime) -> bool:
        """Return whether crons were edited or the machine's clock was set back."""
        before, self._looked_at = self._looked_at, now
        if before is not None and now < before - CLOCK_JUMP:
            self._is_set_back = True
        if config is not self._config and self._armed == _by_name(config):
            self._config = config
        return self._is_set_back or config is not self._config

    async def _arm(self, config: Config, now: datetime) -> None:
        await database_executor.run_to_end(cron_triggers.arm_triggers, config, now)
        known, self._armed = self._armed or {}, _by_name(config)
        self._config, self._is_set_back = config, False
        # Each is due at first, to process ticks from before this start.
        self._ticks = dict.fromkeys(self._armed, now)
        for name, trigger in self._armed.items():
            if known.get(name) != trigger:
                run_log.log_armed(trigger, next(trigger.times.after(now), None))

    def _schedule_next(self, names: Iterable[str], now: datetime) -> None:
        for name in names:
            tick = next((self._armed or {})[name].times.after(now), None)
            self._ticks[name] = NEVER if tick is None else tick

    def _pause_seconds(self) -> float:
        next_at = min(self._ticks.values(), default=NEVER)
        seconds = (next_at - self._now()).total_seconds()
        return min(max(seconds, 0.0), MAX_SLEEP_SECONDS)

    def _kick_if_fired(self, firings: list[TriggerRun]) -> None:
        if any(firing.outcome == "fired" for firing in firings):
            self._kick()


@contextlib.asynccontextmanager
async def running(kick: Callable[[], None]) -> AsyncIterator[None]:
    """Run triggers in this worker until the block ends."""
    watching = asyncio.create_task(TriggerScheduler(kick).run())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(DatabaseDown):
            await database_executor.run_to_end(boot_triggers.deregister_worker)


def _by_name(config: Config) -> dict[str, CronTrigger]:
    return {trigger.name: trigger for trigger in crons_of(config)}
