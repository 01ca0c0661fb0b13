"""Periodic agent tasks: the crons of the YAML, and those that operators add."""

import logging
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import connection, models, transaction
from django_celery_beat.models import PeriodicTask
from pydantic import ValidationError as FieldsInvalid

from config import live
from config.sections import Config
from core.runtime import shared_clock
from triggers.config import TRIGGERS, CronTrigger
from triggers.models.trigger_state import TriggerState
from triggers.runs import run_log, trigger_runs
from triggers.runs.trigger_runs import TriggerRun
from triggers.scheduling import due_ticks, positions
from triggers.scheduling.cron_schedule import CronSchedule
from triggers.scheduling.due_ticks import IntervalTimes, TickSchedule, Times
from turns.agent_tasks import task_requests
from turns.preparation import routing

LOCK_SQL = "SELECT pg_advisory_xact_lock(hashtext('triggers_periodic_task'), 0)"
EVERY_MINUTE = "* * * * *"
SCHEDULE_FIELDS = (
    "cron",
    "time_zone",
    "every_seconds",
    "start_time",
    "enabled",
    "is_paused",
)
SHARED_FIELDS = (
    "name",
    "agent",
    "prompt",
    "learns",
    "skip_if_running",
    "enabled",
    "time_zone",
)
"""Fields that the YAML's crons have under the same names."""
POSITION_FIELDS = {"last_run_at", "total_run_count"}
CATCH_UP_VALUES = {"false": False, "true": True, "last": "last"}


class PeriodicAgentTaskQuerySet(models.QuerySet["PeriodicAgentTask"]):
    """Selects periodic agent tasks, and keeps those of the YAML current."""

    def active(self) -> "PeriodicAgentTaskQuerySet":
        """Return those that beat runs."""
        return self.filter(enabled=True, is_paused=False)

    def paused(self, names: Collection[str]) -> set[str]:
        """Return which of these crons of the YAML are paused."""
        rows = self.filter(source=self.model.Source.FILE, is_paused=True)
        return set(rows.filter(name__in=names).values_list("name", flat=True))

    def follow_file(self, config: Config) -> None:
        """Create, update and delete the rows of the YAML's crons."""
        crons = {
            trigger.name: trigger
            for trigger in config.get(TRIGGERS)
            if isinstance(trigger, CronTrigger)
        }
        with transaction.atomic():
            self._lock()
            self.filter(source=self.model.Source.FILE).exclude(name__in=crons).delete()
            rows = {row.name: row for row in self.filter(name__in=crons)}
            for name in sorted(crons):
                row = rows.get(name) or self.model(name=name)
                row.follow(crons[name])

    def _lock(self) -> None:
        """Exclude other beats, which start at once and follow the same edit.

        SQLite has one writer.
        """
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(LOCK_SQL)

    def reset_positions(self) -> None:
        """Let the ticks up to the next read of the schedule pass unnoticed."""
        PeriodicTask.objects.filter(pk__in=self.values("pk")).update(last_run_at=None)


class PeriodicAgentTask(PeriodicTask):
    """Runs an agent at the times of a cron expression or interval.

    Ticks up to `last_run_at` are processed. It is null after changes of the schedule;
    beat then counts from the time when it reads the row.
    """

    class Source(models.TextChoices):
        FILE = "file", "coulisse.yaml"
        OPERATOR = "operator", "studio"

    class CatchUp(models.TextChoices):
        NONE = "false", "Report missed ticks"
        LAST = "last", "Run the last missed tick"
        ALL = "true", "Run all missed ticks"

    source = models.CharField(
        max_length=16, choices=Source, default=Source.OPERATOR, editable=False
    )
    is_paused = models.BooleanField("paused", default=False, editable=False)
    """Set by operators; kept over restarts and edits of the YAML."""
    agent = models.CharField(max_length=255)
    """The agent or experiment."""
    prompt = models.TextField()
    user = models.CharField(
        max_length=512,
        blank=True,
        default="",
        help_text="The user whose memory it uses. Empty: the default user.",
    )
    thread = models.CharField(
        max_length=512,
        blank=True,
        default="",
        help_text="The thread of that user. Empty: the default thread.",
    )
    cron = models.CharField(
        max_length=255,
        blank=True,
        default="",
        help_text="Minute, hour, day of the month, month and day of the week, such as "
        "0 9 * * 1-5; optionally with the second first.",
    )
    time_zone = models.CharField(
        max_length=64, default="UTC", help_text="Time zone of the cron."
    )
    every_seconds = models.PositiveIntegerField(
        "interval",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Seconds from run to run, instead of a cron.",
    )
    catch_up = models.CharField(
        "missed ticks",
        max_length=8,
        choices=CatchUp,
        default=CatchUp.NONE,
        help_text="What happens to ticks that pass while no beat runs.",
    )
    learns = models.BooleanField(
        default=False, help_text="Whether facts are extracted from the prompt."
    )
    skip_if_running = models.BooleanField(
        default=False,
        help_text="Whether to skip a run while another one is queued or running.",
    )

    _stored_schedule: Sequence[Any] = ()

    objects = PeriodicAgentTaskQuerySet.as_manager()  # type: ignore[misc, assignment]

    class Meta:
        verbose_name = "periodic task"

    def __str__(self) -> str:
        return self.name

    @property
    def is_from_file(self) -> bool:
        """Whether the YAML defines it."""
        return self.source == self.Source.FILE

    @property
    def state(self) -> str:
        """`active`, `paused` or `disabled`."""
        if self.is_paused:
            return "paused"
        return "active" if self.enabled else "disabled"

    @property
    def next_at(self) -> datetime | None:
        return next(self.next_times(1), None)

    def next_times(self, count: int) -> Iterator[datetime]:
        if self.state == "active":
            yield from islice(self.times.after(shared_clock.now()), count)

    @property
    def trigger(self) -> CronTrigger:
        """Its definition in the form of the YAML; an interval has no schedule there."""
        return CronTrigger.model_construct(**self._definition())

    def _definition(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in SHARED_FIELDS},
            "user": self.user or None,
            "thread": self.thread or None,
            "schedule": self.cron or EVERY_MINUTE,
            "catch_up": CATCH_UP_VALUES[self.catch_up],
        }

    @property
    def times(self) -> Times:
        if self.every_seconds is None or self.start_time is None:
            return CronSchedule(self.cron, self.time_zone)
        return IntervalTimes(timedelta(seconds=self.every_seconds), self.start_time)

    @property
    def schedule(self) -> TickSchedule:
        """The same, for Celery."""
        return TickSchedule(self.times)

    def follow(self, cron: CronTrigger) -> None:
        """Take over the definition of the YAML, and keep the pause."""
        if self.pk and not self.is_from_file:
            run_log.log_event(
                "cron trigger not scheduled, because a periodic task of the studio has "
                "its name; rename one",
                cron.name,
                level=logging.ERROR,
            )
            return
        values = {
            **{name: getattr(cron, name) for name in SHARED_FIELDS},
            "source": self.Source.FILE,
            "user": cron.user or "",
            "thread": cron.thread or "",
            "cron": cron.schedule,
            "catch_up": str(cron.catch_up).lower(),
        }
        if not self.pk or any(getattr(self, key) != values[key] for key in values):
            vars(self).update(values)
            self.save()

    # Saving.

    @classmethod
    def from_db(
        cls, db: str | None, field_names: Any, values: Any, **options: Any
    ) -> "PeriodicAgentTask":
        """Return a row that knows its stored schedule."""
        row = super().from_db(db, field_names, values, **options)
        row._stored_schedule = row._schedule_values()
        return row

    def _schedule_values(self) -> Sequence[Any]:
        # Without reading deferred columns.
        return [vars(self).get(name) for name in SCHEDULE_FIELDS]

    def save(self, *arguments: Any, **options: Any) -> None:
        """Save the row; a changed schedule misses no ticks.

        Only beat moves the position of an unchanged one, perhaps meanwhile.
        """
        self.task = task_requests.KIND
        if self.every_seconds and self.start_time is None:
            self.start_time = shared_clock.now()
        if self._state.adding or self._schedule_values() != self._stored_schedule:
            self.last_run_at = None
        else:
            fields = self._meta.concrete_fields
            columns = {field.name for field in fields if not field.primary_key}
            options.setdefault("update_fields", columns - POSITION_FIELDS)
        super().save(*arguments, **options)  # type: ignore[no-untyped-call]
        self._stored_schedule = self._schedule_values()

    def validate_unique(self, exclude: Any = None) -> None:
        """Check the name; `clean` checks the schedule."""
        super(PeriodicTask, self).validate_unique(exclude)

    def clean_fields(self, exclude: Any = None) -> None:
        """Check the fields without the name of a Celery task."""
        super().clean_fields({*(exclude or ()), "task"})

    def clean(self) -> None:
        """Check an operator's entries, as the YAML's are checked."""
        if self.is_from_file:
            raise ValidationError(
                "This task is defined in coulisse.yaml. Edit it there, or pause it."
            )
        if bool(self.cron) == bool(self.every_seconds):
            raise ValidationError("Set either a cron or an interval.")
        self._clean_definition()
        config = live.current()
        taken = {trigger.name for trigger in config.get(TRIGGERS)}
        if self.name in taken | set(settings.CELERY_BEAT_SCHEDULE):
            raise ValidationError({"name": "This name is taken. Choose another one."})
        if not routing.exists(config, self.agent):
            raise ValidationError({"agent": f"There is no agent '{self.agent}'."})

    def _clean_definition(self) -> None:
        columns = {"schedule": "cron"}
        try:
            trigger = CronTrigger.model_validate(self._definition())
        except FieldsInvalid as exc:
            raise ValidationError(
                {
                    columns.get(field := str(each["loc"][0]), field): each["msg"]
                    for each in exc.errors()
                }
            ) from exc
        if not trigger.times.is_possible:
            raise ValidationError({"cron": "No year has a day that matches this."})

    # Operation.

    def pause(self) -> bool:
        """Stop it until `resume`; ticks meanwhile are not missed.

        Return whether it was not paused.
        """
        return self._set_paused(True)

    def resume(self) -> bool:
        """Let beat run it again; return whether it was paused."""
        return self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> bool:
        is_changed = self.is_paused != is_paused
        self.is_paused = is_paused
        if is_changed:
            self.save()
        return is_changed

    def run_now(self) -> TriggerRun:
        """Add a run, even if it is off; raises `TriggerRunning`."""
        event = trigger_runs.build_event(live.current(), self.trigger)
        return TriggerState.objects.run_now(event)

    def run_due(self, config: Config, now: datetime) -> list[TriggerRun]:
        """Add the tasks of due ticks and count missed ones, unless another beat does.

        The position moves in the same transaction.
        """
        trigger, since = self.trigger, self.last_run_at
        if since is None:
            return []
        due = due_ticks.select_ticks(self.times, trigger.catch_up, since, now)
        if due is None:
            return []
        with transaction.atomic():
            if not positions.move(self, due.until, runs=len(due.ticks)):
                return []
            if due.missed:
                TriggerState.objects.add_missed(self.name, due.missed, due.missed_at)
            runs = [self._run_tick(config, tick, now) for tick in due.ticks]
        if due.missed:
            run_log.log_event(
                "cron trigger missed",
                self.name,
                level=logging.WARNING,
                ticks=due.missed,
                last=due.missed_at,
            )
        run_log.log_runs(runs)
        return runs

    def _run_tick(self, config: Config, tick: datetime, now: datetime) -> TriggerRun:
        at = f"{tick:%Y-%m-%dT%H:%M:%SZ}"
        event = trigger_runs.build_event(
            config, self.trigger, key=f"cron:{self.name}:{at}", tick=at
        )
        return TriggerState.objects.run(event, now=now)
