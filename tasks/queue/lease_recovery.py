"""Recovers what a failure left behind: tasks of dead workers, and missing permits."""

import logging
from datetime import datetime, timedelta

from core.runtime import shared_clock
from tasks.models import Task
from tasks.queue import publisher, task_kinds
from tasks.queue.publisher import MAX_DELAY_SECONDS
from telemetry.metrics import recording

MAX_DELAYED = 500
"""Tasks of the next seconds that get a permit at their time."""

logger = logging.getLogger(__name__)


def recover_leases() -> bool:
    """Close tasks that may not run again, and make the others due at once.

    Return whether there may be some to claim.
    """
    if expired := Task.objects.expire_dead_leases():
        logger.warning("expired the leases of %d tasks of dead workers", expired)
        if recording.active is not None:
            recording.active.leases_lost(expired)
    once = task_kinds.non_repeatable_names()
    if closed := Task.objects.close_abandoned(once=once):
        logger.warning("closed %d tasks of dead workers; not running again", closed)
    return expired > 0


def publish_permits(now: datetime | None = None) -> None:
    """Publish a permit for each kind with due tasks, and for tasks that are due soon.

    A worker that uses a permit publishes the next one, so one per kind is enough.
    """
    now = now or shared_clock.now()
    kinds = task_kinds.names()
    for kind in Task.objects.due_kinds(kinds, now):
        publisher.notify(kind)
    # Without ordered kinds: a task of theirs may wait for another when it is due.
    others = [kind for kind in kinds if not task_kinds.is_ordered(kind)]
    soon = Task.objects.delayed_until(
        others, now, now + timedelta(seconds=MAX_DELAY_SECONDS)
    )
    for kind, delay in {
        (kind, round((due_at - now).total_seconds(), 1))
        for kind, due_at in soon.values_list("kind", "due_at")[:MAX_DELAYED]
    }:
        publisher.notify(kind, delay)
