"""Triggers with their counters and runs, for the studio and the terminal."""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count
from django.db.models.functions import Left

from database.repeated_queries import run_for_each
from tasks.models import Task
from triggers.config import AnyTrigger, WebhookTrigger
from triggers.models import PeriodicAgentTask, TriggerState
from triggers.runs import trigger_runs
from triggers.schemas import CountedTrigger, ListedTrigger, TriggerTask
from turns.agent_tasks import task_requests

MAX_ERROR_LENGTH = 300
COLUMNS = ("id", "origin", "state", "created_at", "started_at", "finished_at")
COUNTERS = (
    "last_run_at",
    "missed",
    "missed_at",
    "repeated",
    "run_count",
    "skipped",
)


def count_runs(triggers: Sequence[AnyTrigger]) -> list[CountedTrigger]:
    """Return triggers with the number of their tasks, in three statements."""
    counts: dict[str, dict[str, int]] = defaultdict(
        lambda: dict.fromkeys(Task.State.values, 0)
    )
    tasks = Task.objects.of_origin(*(_origin(each) for each in triggers))
    rows = tasks.filter(kind=task_requests.KIND).values_list("origin", "state")
    for origin, state, count in rows.annotate(count=Count("pk")):
        counts[origin][state] = count
    return [
        CountedTrigger(**values, runs=counts[_origin(trigger)])
        for trigger, values in zip(triggers, _describe(triggers), strict=True)
    ]


def list_newest_runs(triggers: Sequence[AnyTrigger], count: int) -> list[ListedTrigger]:
    """Return triggers with at most `count` runs each, newest first.

    Uses four statements for up to two hundred triggers.
    """
    ids = _newest_ids([_origin(trigger) for trigger in triggers], count)
    tasks = Task.objects.filter(pk__in=ids).newest_first()
    texts = {"error_start": Left("error", MAX_ERROR_LENGTH)}
    runs: dict[str, list[TriggerTask]] = defaultdict(list)
    for row in tasks.values(*COLUMNS, **texts):
        task = TriggerTask(error=row.pop("error_start"), **row)
        runs[row["origin"]].append(task)
    return [
        ListedTrigger(**values, last_runs=runs[_origin(trigger)])
        for trigger, values in zip(triggers, _describe(triggers), strict=True)
    ]


def _origin(trigger: AnyTrigger) -> str:
    return trigger_runs.task_origin(trigger.name)


def _newest_ids(origins: Sequence[str], count: int) -> list[uuid.UUID]:
    placeholder = "{origin}"
    newest = Task.objects.of_origin(placeholder).order_by("-created_at")[:count]
    values = ((origin, {placeholder: origin}) for origin in origins)
    rows = run_for_each(newest.values_list("pk"), values)
    return [uuid.UUID(str(task_id)) for _, (task_id,) in rows]


def _describe(triggers: Sequence[AnyTrigger]) -> Iterator[dict[str, Any]]:
    """Yield the fields of triggers without runs, in two statements."""
    names, now = [trigger.name for trigger in triggers], datetime.now(UTC)
    states = TriggerState.objects.in_bulk(names)
    paused = PeriodicAgentTask.objects.paused(names)
    for trigger in triggers:
        state = states.get(trigger.name) or TriggerState(name=trigger.name)
        is_paused = trigger.name in paused
        yield {
            **trigger.model_dump(exclude={"prompt", "secret"}),
            **{name: getattr(state, name) for name in COUNTERS},
            "paused": is_paused,
            "next_at": None if is_paused else next(trigger.next_times(now), None),
            "has_secret": isinstance(trigger, WebhookTrigger)
            and trigger.secret is not None,
        }
