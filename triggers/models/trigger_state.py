"""Counters of triggers, and the runs that they count: tasks."""

import uuid
from datetime import datetime
from typing import Any

from django.db import models, transaction

from core.runtime import shared_clock
from tasks.models import Task, TaskQuerySet
from triggers.errors import TriggerRunning
from triggers.runs import trigger_runs
from triggers.runs.trigger_runs import TriggerEvent, TriggerRun


class TriggerStateQuerySet(models.QuerySet["TriggerState"]):
    """Starts runs, and counts them."""

    def run(self, event: TriggerEvent, *, now: datetime | None = None) -> TriggerRun:
        """Add the task of an event, unless it exists already or must be skipped.

        Runs in the caller's transaction if there is one. The caller notifies a worker
        after the commit.
        """
        now = now or shared_clock.now()
        with transaction.atomic():
            # One event of a trigger at a time, so that each sees the runs of the
            # others.
            state = self.locked(event.trigger.name)
            run = state._add_task(event, now)
            state.save()
        return run

    def run_now(self, event: TriggerEvent) -> TriggerRun:
        """Add the task of a manual run; raises `TriggerRunning`."""
        run = self.run(event)
        if run.task_id is None:
            raise TriggerRunning(
                f"a run of trigger '{event.trigger.name}' is active, and "
                "skip_if_running is set"
            )
        return run

    def add_missed(self, name: str, count: int, latest: datetime | None) -> None:
        """Count ticks that passed while no beat ran, in the caller's transaction."""
        state = self.locked(name)
        state.missed += count
        state.missed_at = latest
        state.save(update_fields=["missed", "missed_at"])

    def locked(self, name: str) -> "TriggerState":
        """Return a trigger's row, locked until the transaction ends."""
        self.get_or_create(name=name)
        return self.select_for_update().get(name=name)


class TriggerState(models.Model):
    """Counters of a trigger's events."""

    name = models.CharField(max_length=255, primary_key=True)
    """The trigger's name in the YAML, or of a periodic task."""
    run_count = models.BigIntegerField(default=0)
    last_run_at = models.DateTimeField(null=True)
    missed = models.BigIntegerField(default=0)
    """Ticks that passed while no beat ran and were not caught up."""
    missed_at = models.DateTimeField(null=True)
    """The latest of these ticks."""
    repeated = models.BigIntegerField(default=0)
    """Repeated deliveries of a webhook."""
    skipped = models.BigIntegerField(default=0)
    """Events that were skipped because a run was still active."""

    objects = TriggerStateQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def _add_task(self, event: TriggerEvent, now: datetime) -> TriggerRun:
        trigger = event.trigger
        if existing := _find_existing_task(event):
            self.repeated += 1
            return TriggerRun(event, "repeated", existing)
        if trigger.skip_if_running and trigger_runs.is_running(trigger.name):
            self.skipped += 1
            return TriggerRun(event, "skipped", None)
        (task,) = Task.objects.enqueue([trigger_runs.build_task(event)], now=now)
        self.run_count += 1
        self.last_run_at = now
        return TriggerRun(event, "started", task.id)


def _find_existing_task(event: TriggerEvent) -> uuid.UUID | None:
    if event.key is None:
        return None
    return Task.objects.filter(key=event.key).values_list("pk", flat=True).first()


class TriggeredTaskManager(models.Manager.from_queryset(TaskQuerySet)):  # type: ignore[misc]  # built by Django
    def get_queryset(self) -> Any:
        return super().get_queryset().triggered()


class TriggeredTask(Task):
    objects = TriggeredTaskManager()  # type: ignore[misc]  # a proxy's own

    class Meta:
        proxy = True
        verbose_name = "trigger run"

    @property
    def trigger(self) -> str:
        return self.origin.partition(":")[2]
