"""Tasks for operators: those of all users, with their workers."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from core.text import redaction
from tasks.errors import TaskUnknown
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.reports import costs, serializers


def get_task(task_id: uuid.UUID) -> dict[str, Any]:
    """Return a task with all its texts; raises `TaskUnknown`."""
    task = Task.objects.filter(pk=task_id).first()
    if task is None:
        raise TaskUnknown
    return _add_operator_fields(
        serializers.serialize_task(_redact(task), costs.costs_by_task([task])[task.pk]),
        task,
    )


def cancel_task(task_id: uuid.UUID) -> bool:
    """Cancel a task; return whether it was open. Raises `TaskUnknown`."""
    open_tasks = Task.objects.filter(state__in=lifecycle.OPEN, is_cancelled=False)
    with transaction.atomic():
        # Locked, so that only one of two concurrent calls returns True.
        was_open = open_tasks.select_for_update().filter(pk=task_id).first() is not None
        if lifecycle.cancel(task_id) is None:
            raise TaskUnknown
    return was_open


def serialize_list(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return tasks with truncated texts."""
    cost_by_id = costs.costs_by_task(tasks)
    return [
        _add_operator_fields(
            serializers.serialize_list_item(_redact(task), cost_by_id[task.pk]), task
        )
        for task in tasks
    ]


def _redact(task: Task) -> Task:
    """Return a task with the server's own secrets masked."""
    for name in ("prompt", "result", "error"):
        setattr(task, name, redaction.redact_own(getattr(task, name)))
    metadata = task.payload.get("metadata") or {}
    redacted = {
        redaction.redact_own(key): redaction.redact_own(value)
        for key, value in metadata.items()
    }
    task.payload = {**task.payload, "metadata": redacted}
    return task


def _add_operator_fields(serialized: dict[str, Any], task: Task) -> dict[str, Any]:
    return {
        **serialized,
        "error": task.error or None,
        "user_id": str(task.user_id),
        "worker": task.worker or None,
    }
