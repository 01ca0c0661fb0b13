"""Takes on what users ask for: once for each key, and not without end."""

import uuid
from dataclasses import replace

from tasks.errors import KeyReused, TooManyTasks
from tasks.models import Task
from tasks.queue import lifecycle, task_kinds
from tasks.queue.lifecycle import TaskSpec

REQUEST_KEY = "asked"
"""Where a payload says which request it came with."""


def admit_task(
    draft: TaskSpec, *, max_open: int, asked: str = ""
) -> tuple[uuid.UUID, bool]:
    """Put a user's task into the queue; return its id, and whether it is new.

    Where its key is there already it is not. `asked` tells the request it comes with
    from others. Raises `KeyReused` where the key came with another one, `TooManyTasks`
    where as many of the user's have not ended. Who has it taken on calls `wake.soon()`.
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
    # Another request of the same key came first.
    return admit_task(draft, max_open=max_open, asked=asked)


def _find_by_key(draft: TaskSpec, asked: str) -> Task | None:
    if draft.key is None:
        return None
    task = Task.objects.filter(key=draft.key, user_id=draft.user_id).first()
    if task is not None and task.payload.get(REQUEST_KEY) != asked:
        raise KeyReused
    return task
