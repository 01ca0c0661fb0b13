"""Database access of the executor, for the threads of the database."""

import uuid
from collections.abc import Collection

from core.ids import UserId
from tasks.models import Task
from tasks.queue import task_kinds
from tasks.queue.task_kinds import TaskKind


def claim_next(kind: TaskKind, users: Collection[UserId] | None) -> Task | None:
    reruns = kind.name not in task_kinds.non_repeatable_names()
    return Task.objects.claim(kind.name, users=users, reruns=reruns)


def check(tasks: Collection[Task], *, extend: bool) -> set[uuid.UUID]:
    """Return the tasks that must stop, after extending the leases if asked."""
    if extend:
        Task.objects.extend_leases(tasks)
    return Task.objects.stopped_ids(tasks)


def release(tasks: Collection[Task]) -> None:
    """Release attempts that this process will not finish, for another worker."""
    for task in tasks:
        task.release()
