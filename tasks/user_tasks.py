"""The tasks that a user sees: lists, single ones, cancellation."""

import uuid
from datetime import datetime

from core.ids import UserId
from tasks.errors import TaskUnknown
from tasks.models import Task
from tasks.schemas import ListedTask, TaskList, TaskObject


def get_task(task_id: uuid.UUID, user_id: UserId) -> TaskObject:
    """Return a task; raises `TaskUnknown`."""
    task = Task.objects.visible_to(user_id).get_with_cost(task_id)
    return TaskObject.model_validate(task)


def cancel_task(task_id: uuid.UUID, user_id: UserId) -> TaskObject:
    """Cancel a task, and return it; raises `TaskUnknown`."""
    task = Task.objects.visible_to(user_id).filter(pk=task_id).first()
    if task is None:
        raise TaskUnknown
    task.cancel()
    return get_task(task_id, user_id)


def list_tasks(
    user_id: UserId | None,
    *,
    state: str | None = None,
    agent: str | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = 20,
) -> TaskList:
    """Return a page of tasks, newest first: of all users if `user_id` is None.

    `after` is the `created_at` and the id of the last task of the previous page.
    """
    found = Task.objects.listed()
    if user_id is not None:
        found = found.of_user(user_id)
    if state is not None:
        found = found.in_states([state])
    if agent:
        found = found.filter(agent=agent)
    tasks, has_more = found.page(limit, after)
    page = [ListedTask.model_validate(task) for task in tasks]
    return TaskList.of(page, has_more=has_more)


def find_cursor(
    task_id: uuid.UUID, user_id: UserId
) -> tuple[datetime, uuid.UUID] | None:
    """Return the `created_at` and id of a task, or None."""
    found = Task.objects.visible_to(user_id).filter(pk=task_id)
    return found.values_list("created_at", "id").first()
