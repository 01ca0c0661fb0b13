"""Status of triggers: the configuration of each, and its results."""

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
    """A trigger and its results."""

    trigger: AnyTrigger
    state: TriggerState
    next_at: datetime | None
    """The next tick of a cron, if any."""
    runs: dict[str, int]
    """Number of its stored tasks by state."""


def list_triggers(config: Config, now: datetime) -> list[TriggerStatus]:
    """Return all triggers in the order of the YAML; always two statements."""
    triggers = config.get(TRIGGERS)
    runs = _count_runs(triggers)
    return [
        replace(status, runs=runs[trigger_runs.task_origin(status.trigger.name)])
        for status in list_without_runs(triggers, now)
    ]


def list_without_runs(
    triggers: Sequence[AnyTrigger], now: datetime
) -> list[TriggerStatus]:
    """Return triggers without the number of their runs, in one statement."""
    states = TriggerState.objects.in_bulk([trigger.name for trigger in triggers])
    return [
        TriggerStatus(
            trigger,
            states.get(trigger.name) or TriggerState(name=trigger.name),
            _next_at(trigger, now),
            {},
        )
        for trigger in triggers
    ]


def _count_runs(triggers: list[AnyTrigger]) -> dict[str, dict[str, int]]:
    origins = [trigger_runs.task_origin(trigger.name) for trigger in triggers]
    counts = (
        Task.objects.filter(kind=task_requests.KIND, origin__in=origins)
        .values_list("origin", "state")
        .annotate(count=Count("pk"))
    )
    runs: dict[str, dict[str, int]] = defaultdict(dict)
    for origin, state, count in counts:
        runs[origin][state] = count
    return runs


def _next_at(trigger: AnyTrigger, now: datetime) -> datetime | None:
    if not isinstance(trigger, CronTrigger) or not trigger.enabled:
        return None
    return next(trigger.times.after(now), None)
