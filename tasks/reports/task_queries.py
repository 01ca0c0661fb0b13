"""Queries on tasks: one task, pages, counts."""

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, QuerySet

from core.ids import UserId
from tasks.errors import TaskUnknown
from tasks.models import Task
from tasks.queue import lifecycle, task_kinds
from tasks.reports import costs, serializers


def get_task(task_id: uuid.UUID, user_id: UserId | None = None) -> dict[str, Any]:
    """Return a task; with `user_id` only one that this user may see.

    Raises `TaskUnknown`.
    """
    task = _visible(user_id).filter(pk=task_id).first()
    if task is None:
        raise TaskUnknown
    return serializers.serialize_task(task, costs.costs_by_task([task])[task.pk])


def list_tasks(**filters: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return list items, filtered as in `page_tasks`, and whether there are more."""
    tasks, has_more = page_tasks(**filters)
    return serialize_tasks(tasks), has_more


def serialize_tasks(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return tasks as list items."""
    cost_by_id = costs.costs_by_task(tasks)
    return [
        serializers.serialize_list_item(task, cost_by_id[task.pk]) for task in tasks
    ]


def list_for_agent(
    user_id: UserId, *, state: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return a user's newest tasks in the form that agents receive."""
    tasks, _ = page_tasks(user_id=user_id, states=[state] if state else (), limit=limit)
    return [serializers.serialize_for_agent(task) for task in tasks]


def page_tasks(
    *,
    user_id: UserId | None = None,
    is_all: bool = False,
    states: Collection[str] = (),
    agent: str | None = None,
    kind: str | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = 20,
) -> tuple[list[Task], bool]:
    """Return tasks, newest first, and whether there are more.

    With `user_id` those that this user may see, or all of theirs with `is_all`. `after`
    is the `created_at` and the id of the last task of the previous page.
    """
    filters = {"agent": agent, "kind": kind, "state__in": list(states) or None}
    filters = {name: value for name, value in filters.items() if value is not None}
    rows = _visible(user_id, is_all=is_all).filter(_after_cursor(after), **filters)
    if states and set(states) <= set(lifecycle.FAILED):
        rows = rows.filter(lifecycle.HAS_FAILED)
    elif list(states) == [Task.State.RUNNING]:
        # Few of many tasks run, and they are among the open ones.
        rows = rows.filter(lifecycle.IS_OPEN)
    found = list(rows.order_by("-created_at", "id")[: limit + 1])
    return found[:limit], len(found) > limit


def cursor_of(task_id: uuid.UUID, user_id: UserId) -> tuple[datetime, uuid.UUID] | None:
    """Return the page cursor of a user's task, or None."""
    found = _visible(user_id).filter(pk=task_id)
    return found.values_list("created_at", "id").first()


def _visible(user_id: UserId | None, *, is_all: bool = False) -> QuerySet[Task]:
    if user_id is None:
        return Task.objects.all()
    own = Task.objects.filter(user_id=user_id)
    return own if is_all else own.filter(kind__in=task_kinds.listed_names())


def _after_cursor(after: tuple[datetime, uuid.UUID] | None) -> Q:
    if after is None:
        return Q()
    at, last_id = after
    # The first condition selects where the index scan begins.
    return Q(created_at__lte=at) & (Q(created_at__lt=at) | Q(id__gt=last_id))


def count_by_kind_and_state() -> list[tuple[str, str, int]]:
    """Return the number of tasks by kind and state."""
    rows = Task.objects.order_by("kind", "state").values_list("kind", "state")
    return list(rows.annotate(count=Count("*")))


def count_errors(limit: int = 10) -> list[tuple[str, str, int]]:
    """Return the most frequent errors of tasks: kind, error and count."""
    failed = Task.objects.filter(lifecycle.HAS_FAILED, state=Task.State.ERRORED)
    rows = failed.values_list("kind", "error")
    return list(rows.annotate(count=Count("*")).order_by("-count", "kind")[:limit])
