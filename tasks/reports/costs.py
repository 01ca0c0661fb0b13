"""Costs of tasks, from the recorded turns of their attempts."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.ids import TurnId
from tasks.models import Task
from tasks.queue import attempt_ids, task_kinds
from telemetry.models import Turn


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The cost of a task's turns."""

    turn_id: TurnId | None = None
    """The newest turn."""
    micro_usd: int | None = None
    """Sum of all attempts; None if unknown."""


def costs_by_task(tasks: Sequence[Task]) -> dict[uuid.UUID, TaskCost]:
    """Return the cost of each task, in one query."""
    turns = {task.pk: _turn_ids(task) for task in tasks}
    turn_ids = [turn_id for ids in turns.values() for turn_id in ids]
    rows = Turn.objects.filter(pk__in=turn_ids) if turn_ids else Turn.objects.none()
    costs = dict(rows.values_list("pk", "cost_micro_usd"))
    return {pk: _task_cost(ids, costs) for pk, ids in turns.items()}


def _turn_ids(task: Task) -> list[TurnId]:
    kind = task_kinds.get(task.kind)
    if kind is None or not kind.is_turn:
        return []
    return attempt_ids.turn_ids(task.pk, task.attempts)


def _task_cost(
    turns: Sequence[TurnId], costs: Mapping[uuid.UUID, int | None]
) -> TaskCost:
    recorded = [turn_id for turn_id in turns if turn_id in costs]
    if not recorded:
        return TaskCost()
    known = [cost for turn in recorded if (cost := costs[turn]) is not None]
    return TaskCost(recorded[-1], sum(known) if len(known) == len(recorded) else None)
