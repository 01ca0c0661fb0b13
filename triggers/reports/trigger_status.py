"""Triggers as they are shown: what the YAML says of each, and what came of it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Count

from config.sections import Config
from tasks.models import Task
from triggers.config import TRIGGERS, AnyTrigger, CronTrigger
from triggers.models import TriggerState
from triggers.runs import trigger_runs
from turns.agent_tasks import task_requests


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """A trigger and what came of it."""

    trigger: AnyTrigger
    state: TriggerState
    next_at: datetime | None
    """When a cron fires next, if it does."""
    runs: dict[str, int]
    """Its tasks, as far as they are kept, by how they stand."""


def list_triggers(config: Config, now: datetime) -> list[TriggerStatus]:
    """Return all triggers of the YAML, in its order; two statements however many."""
    listed = config.get(TRIGGERS)
    runs = _count_runs(listed)
    return [
        replace(page, runs=runs[trigger_runs.task_origin(page.trigger.name)])
        for page in list_without_runs(listed, now)
    ]


def list_without_runs(
    listed: Sequence[AnyTrigger], now: datetime
) -> list[TriggerStatus]:
    """Return triggers whose runs are not counted, in one statement."""
    states = TriggerState.objects.in_bulk([trigger.name for trigger in listed])
    return [
        TriggerStatus(
            trigger,
            states.get(trigger.name) or TriggerState(name=trigger.name),
            _next_at(trigger, now),
            {},
        )
        for trigger in listed
    ]


def _count_runs(listed: list[AnyTrigger]) -> dict[str, dict[str, int]]:
    origins = [trigger_runs.task_origin(trigger.name) for trigger in listed]
    counted = (
        Task.objects.filter(kind=task_requests.KIND, origin__in=origins)
        .values_list("origin", "state")
        .annotate(count=Count("pk"))
    )
    runs: dict[str, dict[str, int]] = defaultdict(dict)
    for origin, state, count in counted:
        runs[origin][state] = count
    return runs


def _next_at(trigger: AnyTrigger, now: datetime) -> datetime | None:
    if not isinstance(trigger, CronTrigger) or not trigger.enabled:
        return None
    return next(trigger.times.after(now), None)
