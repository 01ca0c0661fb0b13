"""Admits users' tasks: once per idempotency key, and within a limit of open tasks."""

import uuid
from dataclasses import replace

from tasks.errors import KeyReused, TooManyTasks
from tasks.models import Task
from tasks.queue import task_kinds
from tasks.queue.task_spec import TaskSpec

DIGEST_KEY = "request_digest"
"""Payload key for the digest of the request."""


def admit_task(
    spec: TaskSpec, *, max_open: int, request_digest: str = ""
) -> tuple[uuid.UUID, bool]:
    """Enqueue a user's task; return its id, and whether it is new.

    An existing key returns the existing task. Raises `KeyReused` if the key belongs to
    a request with another digest, and `TooManyTasks` if the user has `max_open` open
    tasks. The caller notifies a worker after the commit.
    """
    existing = _find_by_key(spec, request_digest)
    if existing is not None:
        return existing.pk, False
    own = Task.objects.of_user(spec.user_id).filter(kind__in=task_kinds.listed_names())
    if own.open()[:max_open].count() >= max_open:
        raise TooManyTasks
    payload = {**spec.payload, DIGEST_KEY: request_digest}
    if Task.objects.enqueue([replace(spec, payload=payload)]):
        return spec.id, True
    # A concurrent request with the same key came first.
    return admit_task(spec, max_open=max_open, request_digest=request_digest)


def _find_by_key(spec: TaskSpec, request_digest: str) -> Task | None:
    if spec.key is None:
        return None
    task = Task.objects.filter(key=spec.key, user_id=spec.user_id).first()
    if task is not None and task.payload.get(DIGEST_KEY) != request_digest:
        raise KeyReused
    return task
