"""Beat's scheduler: django-celery-beat's, with the schedules that it lacks.

It runs periodic agent tasks itself: it adds their rows to the queue, which needs no
broker. It sends the other tasks to a worker. Any number of beats may run, and take over
from each other at once: each tick belongs to the beat that moves the task's position.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from celery.beat import SchedulingError
from celery.schedules import schedstate
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    transaction,
)
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from config import live
from config.sections import Config
from tasks.config import TASKS
from tasks.queue import lease_recovery
from triggers.config import BootTrigger, enabled_triggers
from triggers.models import PeriodicAgentTask, ServerStart, TriggerState
from triggers.runs import run_log, trigger_runs
from triggers.scheduling import positions

CLOCK_SKEW = timedelta(seconds=60)
"""Tolerated difference between the clocks of machines."""
HEARTBEAT_INTERVAL = timedelta(seconds=10)
RETRY_SECONDS = 1.0
OUTAGES = (InterfaceError, OperationalError)
SYSTEM = "Maintenance of Coulisse"
"""The description of the tasks in `CELERY_BEAT_SCHEDULE`."""

logger = logging.getLogger(__name__)


class JobEntry(ModelEntry):  # type: ignore[misc]  # it has no types
    """A task that is sent to a worker."""

    def is_due(self) -> schedstate:
        """Return whether it is due, by the position in memory; `move` compares it."""
        row, now = self.model, self.default_now()
        if row.last_run_at is None:
            return schedstate(False, RETRY_SECONDS)
        if row.last_run_at > now + CLOCK_SKEW:
            self.set_back(now)
        self.last_run_at = row.last_run_at
        state: schedstate = super().is_due()
        return state

    def set_back(self, now: datetime) -> None:
        """Continue from now, because the clock was ahead."""
        positions.move(self.model, now)

    def claim(self) -> bool:
        """Return whether this beat sends the task."""
        return positions.move(self.model, self.default_now(), runs=1)


class AgentEntry(JobEntry):
    """A periodic agent task."""

    def set_back(self, now: datetime) -> None:
        """Log it as well."""
        run_log.log_event(
            "cron trigger rescheduled, because the clock was set back",
            self.model.name,
            level=logging.WARNING,
            was_at=self.model.last_run_at,
        )
        super().set_back(now)


class BeatScheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """Runs what is due, and follows the YAML."""

    Entry = JobEntry
    _heap_invalidated = False
    producer = None  # Beat's own would wait for the broker, and delay agent tasks.

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._config: Config | None = None
        self._publisher = ThreadPoolExecutor(1, "beat-publisher")
        self._is_broker_down = self._is_database_down = False
        self._has_run_boot_triggers = False
        self._logged: dict[str, Any] = {}
        """The schedules that were logged."""
        self._ticked_at = self._heartbeat_at = datetime.min.replace(tzinfo=UTC)
        super().__init__(*arguments, **options)

    # The schedule.

    def setup_schedule(self) -> None:
        """Store the tasks of the settings and of the YAML."""
        self._follow_config()
        jobs = self.app.conf.beat_schedule
        described = {
            name: {**fields, "description": SYSTEM} for name, fields in jobs.items()
        }
        self.update_from_dict(described)
        PeriodicTask.objects.filter(description=SYSTEM).exclude(name__in=jobs).delete()

    def _follow_config(self) -> Config:
        config = live.current()
        if config is not self._config:
            PeriodicAgentTask.objects.follow_file(config)
            if not config.get(TASKS).enabled:
                PeriodicAgentTask.objects.reset_positions()
            self._config = config
            self._last_timestamp = None
        return config

    def schedule_changed(self) -> bool:
        """Return whether a row was changed; the library compares clocks of machines."""
        before, self._last_timestamp = self._last_timestamp, self.Changes.last_change()
        return before != self._last_timestamp

    def schedules_equal(self, *schedules: Any) -> bool:
        """Return whether no row was changed, without comparing all entries."""
        is_equal = not self._heap_invalidated
        self._heap_invalidated = False
        return is_equal

    def enabled_models(self) -> Sequence[PeriodicTask]:
        jobs = self.enabled_models_qs().filter(periodicagenttask=None)
        agents = PeriodicAgentTask.objects.active()
        is_on = live.current().get(TASKS).enabled
        return [*jobs, *(agents if is_on else ())]

    def all_as_schedule(self) -> dict[str, JobEntry]:
        """Return the entries; new ones count from now."""
        now, rows = self.app.now(), self.enabled_models()
        for row in rows:
            if row.last_run_at is None:
                positions.move(row, now)
        agents = [row for row in rows if isinstance(row, PeriodicAgentTask)]
        self._log_scheduled(agents, now)
        return {row.name: _build_entry(row, self.app) for row in rows}

    def _log_scheduled(self, rows: Sequence[PeriodicAgentTask], now: datetime) -> None:
        before, self._logged = self._logged, {row.name: row.times for row in rows}
        for row in rows:
            if before.get(row.name) != row.times:
                run_log.log_event(
                    "cron trigger armed",
                    row.name,
                    agent=row.agent,
                    next=next(row.times.after(now), None),
                )

    # Running.

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Run one due task; return the seconds until the next call."""
        try:
            self._run_companions(self._follow_config(), self.app.now())
            seconds: float = super().tick(*arguments, **options)
        except Exception as exc:
            self._log_failure(exc)
            close_old_connections()
            # Positions in memory may not have been stored.
            self._last_timestamp, self._heap = None, None
            return RETRY_SECONDS
        self._is_database_down = False
        return seconds

    def _log_failure(self, error: Exception) -> None:
        if not isinstance(error, OUTAGES):
            logger.error("could not run due tasks", exc_info=error)
        elif not self._is_database_down:
            logger.warning("due tasks wait for the database: %s", error)
            self._is_database_down = True

    def _run_companions(self, config: Config, now: datetime) -> None:
        """Run boot triggers once, and record heartbeats."""
        before, self._ticked_at = self._ticked_at, now
        if now + CLOCK_SKEW < before:
            self._heap = None  # Its times are later than the clock, which was set back.
        if not self._has_run_boot_triggers:
            # A run that a crash interrupted no longer counts as running.
            lease_recovery.recover_leases()
            run_boot_triggers(config, now)
            self._has_run_boot_triggers = True
        if not now - HEARTBEAT_INTERVAL < self._heartbeat_at <= now:
            ServerStart.objects.record_heartbeat(now)
            self._heartbeat_at = now

    def reserve(self, entry: JobEntry) -> JobEntry:
        """Return the entry, which `apply_entry` moves on."""
        return entry

    def apply_entry(self, entry: JobEntry, producer: Any = None) -> None:
        """Run a due task, unless another beat does."""
        try:
            if isinstance(entry, AgentEntry):
                entry.model.run_due(live.current(), entry.default_now())
            elif entry.claim():
                # A hanging broker must not delay agent tasks.
                self._publisher.submit(self._publish, entry)
        except OUTAGES:
            raise
        except Exception:
            logger.exception("could not run the periodic task '%s'", entry.name)

    def _publish(self, entry: JobEntry) -> None:
        """Send a task; if this fails, the task waits until it is due again."""
        try:
            self.apply_async(entry, advance=False)
        except SchedulingError as exc:
            if not self._is_broker_down:
                logger.warning("%s; due jobs wait for the broker", exc)
            self._is_broker_down = True
        else:
            self._is_broker_down = False

    def sync(self) -> None:
        """Store nothing: positions are stored when they move."""

    def close(self) -> None:
        """Record the end of this beat."""
        self._publisher.shutdown(wait=False, cancel_futures=True)
        with suppress(*OUTAGES):
            ServerStart.objects.deregister()
        super().close()


def _build_entry(row: PeriodicTask, app: Celery) -> JobEntry:
    entry = AgentEntry if isinstance(row, PeriodicAgentTask) else JobEntry
    return entry(row, app=app)


def run_boot_triggers(config: Config, now: datetime) -> None:
    """Run the boot triggers if this beat is the first of its start."""
    with transaction.atomic():
        start = ServerStart.objects.register(now)
        if start is None or not config.get(TASKS).enabled:
            return
        runs = [
            TriggerState.objects.run(
                trigger_runs.build_event(
                    config, trigger, key=f"boot:{trigger.name}:{start.pk.hex}"
                ),
                now=now,
            )
            for trigger in enabled_triggers(config, BootTrigger)
        ]
    run_log.log_runs(runs)
