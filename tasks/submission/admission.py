"""Admits users' tasks: once per idempotency key, and within a limit of open tasks."""

import uuid
from dataclasses import replace

from tasks.errors import KeyReused, TooManyTasks
from tasks.models import Task
from tasks.queue import lifecycle, task_kinds
from tasks.queue.lifecycle import TaskSpec

REQUEST_KEY = "asked"
"""Payload key for the digest of the request."""


def admit_task(
    draft: TaskSpec, *, max_open: int, asked: str = ""
) -> tuple[uuid.UUID, bool]:
    """Enqueue a user's task; return its id, and whether it is new.

    An existing key returns the existing task. `asked` is a digest of the request.
    Raises `KeyReused` if the key belongs to a different request, and `TooManyTasks` if
    the user has `max_open` open tasks. The caller notifies a worker after the commit.
    """
    known = _find_by_key(draft, asked)
    if known is not None:
        return known.pk, False
    if (
        lifecycle.count_open(draft.user_id, task_kinds.listed_names(), max_open)
        >= max_open
    ):
        raise TooManyTasks
    if lifecycle.enqueue(
        [replace(draft, payload={**draft.payload, REQUEST_KEY: asked})]
    ):
        return draft.id, True
    # A concurrent request with the same key came first.
    return admit_task(draft, max_open=max_open, asked=asked)


def _find_by_key(draft: TaskSpec, asked: str) -> Task | None:
    if draft.key is None:
        return None
    task = Task.objects.filter(key=draft.key, user_id=draft.user_id).first()
    if task is not None and task.payload.get(REQUEST_KEY) != asked:
        raise KeyReused
    return task
