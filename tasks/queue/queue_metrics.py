"""The state of the queues, for a scrape of the metrics."""

from collections.abc import Mapping
from typing import Any

from core.runtime import shared_clock
from tasks.models import Task
from tasks.queue import task_kinds
from tasks.queue.task_kinds import Queue
from telemetry.metrics.figures import Figure

STATES = ("due", "delayed", "running")


def read_figures() -> list[Figure]:
    """Return the size and the age of each queue, and its failed tasks."""
    now = shared_clock.now()
    tasks = {(queue.value, state): 0 for queue in Queue for state in STATES}
    ages = {(queue.value,): 0.0 for queue in Queue}
    errored = {(queue.value,): 0 for queue in Queue}
    for kind, *counts, first in Task.objects.count_open(now):
        if (queue := _queue(kind)) is None:
            continue
        for state, count in zip(STATES, counts, strict=True):
            tasks[queue, state] += count
        if first is not None:
            ages[queue,] = max(ages[queue,], (now - first).total_seconds())
    for kind, count in Task.objects.count_errored():
        if (queue := _queue(kind)) is not None:
            errored[queue,] += count
    return [
        _figure("queue_tasks", "Open tasks.", tasks, "state"),
        _figure("queue_oldest_seconds", "Wait of the oldest due task.", ages),
        _figure("dead_letters", "Tasks that failed for good.", errored),
    ]


def _figure(
    name: str, help_text: str, values: Mapping[Any, float], *labels: str
) -> Figure:
    return Figure(name, help_text, ("queue", *labels), values.items())


def _queue(kind_name: str) -> str | None:
    """Return the queue of a kind; None for kinds of other versions."""
    kind = task_kinds.get(kind_name)
    return None if kind is None else kind.queue.value
