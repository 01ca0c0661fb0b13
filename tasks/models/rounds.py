"""Fair order within a kind and a priority: one task of each user per round.

A new task joins the round after the queue's current one, or after the last round in
which its user has a task. So a user with a thousand tasks delays another user by two
tasks at most; and new tasks never join an earlier round, so no task waits forever.
Source: Golestani, "A self-clocked fair queueing scheme", 1994, for tasks of one size.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import connection, models

from tasks.queue import task_kinds

if TYPE_CHECKING:
    from tasks.models.task import Task

_UUID: "models.UUIDField[Any, Any]" = models.UUIDField()
LAST_ROUND_SQL = """
    SELECT
        (SELECT round FROM tasks_task
         WHERE state IN ('queued', 'running') AND kind = %s AND priority = %s
            AND due_at <= %s
         ORDER BY round LIMIT 1),
        (SELECT round FROM tasks_task
         WHERE state IN ('queued', 'running') AND user_id = %s AND kind = %s
            AND priority = %s AND due_at <= %s
         ORDER BY round DESC LIMIT 1)
"""
"""Plain SQL, because it runs for every task. Running tasks are not due while their
lease is extended.
"""
WAITING_SQL = """
    SELECT count(*) FROM tasks_task
    WHERE state IN ('queued', 'running') AND user_id = %s AND kind = %s
        AND priority = %s AND due_at > %s AND state = 'queued'
"""


def assign_rounds(rows: "Sequence[Task]", now: datetime) -> None:
    """Set the rounds of tasks that are about to be queued, in their order."""
    last_rounds: dict[tuple[uuid.UUID, str, int, bool], int] = {}
    for row in rows:
        is_due = row.due_at <= now
        key = (row.user_id, row.kind, row.priority, is_due)
        if key in last_rounds:
            row.round = last_rounds[key] + 1
        elif task_kinds.is_ordered(row.kind):
            row.round = 0
            continue
        else:
            next_round = _round_when_due if is_due else round_when_waiting
            row.round = next_round(row, now)
        last_rounds[key] = row.round


def round_when_waiting(task: "Task", now: datetime) -> int:
    """Return the round of a task, one more of its user, that is due later.

    The queue's round at that time is unknown. The task is ahead of most tasks then,
    though several tasks of one user keep their own rounds.
    """
    if task_kinds.is_ordered(task.kind):
        return 0
    user, at = to_column(task.user_id), connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        cursor.execute(WAITING_SQL, [user, task.kind, task.priority, at])
        return 1 + int(cursor.fetchone()[0])


def _round_when_due(task: "Task", now: datetime) -> int:
    """Return the round of a task, one more of its user, that is due at once."""
    user, at = to_column(task.user_id), connection.ops.adapt_datetimefield_value(now)
    order: list[Any] = [task.kind, task.priority, at]
    with connection.cursor() as cursor:
        cursor.execute(LAST_ROUND_SQL, [*order, user, *order])
        return 1 + max(value or 0 for value in cursor.fetchone())


def to_column(value: uuid.UUID | None) -> Any:
    """Return a UUID as the database stores it, for plain SQL."""
    return _UUID.get_db_prep_value(value, connection)
