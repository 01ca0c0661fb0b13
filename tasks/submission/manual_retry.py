"""Manual retries: failed tasks are requeued, completed tasks are copied."""

import uuid

from django.db import transaction

from core.errors import Conflict
from core.ids import UserId
from tasks.errors import TaskUnknown
from tasks.models import Task
from tasks.queue import lifecycle, task_kinds
from tasks.queue.lifecycle import TaskSpec


class TaskNotEnded(Conflict):
    """This task has not ended: cancel it, or wait."""

    code = "task_not_ended"


class TaskNotRepeatable(Conflict):
    """This task is done, and tasks of its kind run only once."""

    code = "task_done"


def retry_task(task_id: uuid.UUID) -> uuid.UUID:
    """Retry a task, and return the id of the task that runs.

    A failed or cancelled task is requeued. A completed task stays, and a copy of it is
    added. The caller notifies a worker after the commit. Raises `TaskUnknown`,
    `TaskNotEnded` and `TaskNotRepeatable`.
    """
    with transaction.atomic():
        task = Task.objects.select_for_update().filter(pk=task_id).first()
        if task is None:
            raise TaskUnknown
        if task.state in lifecycle.OPEN:
            raise TaskNotEnded
        if task.state != Task.State.DONE:
            lifecycle.requeue([task_id])
            return task_id
        kind = task_kinds.get(task.kind)
        if kind is None or not kind.is_repeatable:
            raise TaskNotRepeatable
        (added,) = lifecycle.enqueue([_copy_task(task)])
        return added.pk


def _copy_task(task: Task) -> TaskSpec:
    return TaskSpec(
        task.kind,
        UserId(task.user_id),
        task.agent,
        task.prompt,
        payload=task.payload,
        origin=task.origin,
        token_id=task.token_id,
        priority=task.priority,
        max_failures=task.max_failures,
    )
