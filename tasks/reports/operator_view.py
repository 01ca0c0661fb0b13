"""Tasks as operators are told of them: all of every user's, with who worked at them."""

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
    """Tell a task with all its texts; raises `TaskUnknown`."""
    task = Task.objects.filter(pk=task_id).first()
    if task is None:
        raise TaskUnknown
    return _add_operator_fields(
        serializers.serialize_task(_redact(task), costs.costs_by_task([task])[task.pk]),
        task,
    )


def cancel_task(task_id: uuid.UUID) -> bool:
    """End a task; return whether it was to go on. Raises `TaskUnknown`."""
    open_ones = Task.objects.filter(state__in=lifecycle.OPEN, is_cancelled=False)
    with transaction.atomic():
        # Locked, lest two who end it at once both see it go on.
        was_open = open_ones.select_for_update().filter(pk=task_id).first() is not None
        if lifecycle.cancel(task_id) is None:
            raise TaskUnknown
    return was_open


def serialize_list(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Tell tasks, their long texts cut."""
    spent = costs.costs_by_task(tasks)
    return [
        _add_operator_fields(
            serializers.serialize_list_item(_redact(task), spent[task.pk]), task
        )
        for task in tasks
    ]


def _redact(task: Task) -> Task:
    """Return a task without our own secrets, which are nobody's to read."""
    for name in ("prompt", "result", "error"):
        setattr(task, name, redaction.redact_own(getattr(task, name)))
    metadata = task.payload.get("metadata") or {}
    said = {
        redaction.redact_own(k): redaction.redact_own(metadata[k]) for k in metadata
    }
    task.payload = {**task.payload, "metadata": said}
    return task


def _add_operator_fields(told: dict[str, Any], task: Task) -> dict[str, Any]:
    more = {"user_id": str(task.user_id), "worker": task.worker or None}
    return {**told, "error": task.error or None, **more}
