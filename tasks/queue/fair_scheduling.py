"""Fair order within a priority: one task of each user per round.

A new task joins the round after the queue's current one, or after the last round in
which its user has a task. So a user with a thousand tasks delays another user by two
tasks at most; and new tasks never join an earlier round, so no task waits forever.
Source: Golestani, "A self-clocked fair queueing scheme", 1994, for tasks of one size.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from tasks.models import Task
from tasks.queue.column_values import to_column

LAST_ROUND_SQL = """
    SELECT
        (SELECT round FROM tasks_task
         WHERE state IN ('queued', 'running') AND priority = %s AND due_at <= %s
         ORDER BY round LIMIT 1),
        (SELECT round FROM tasks_task
         WHERE state IN ('queued', 'running') AND user_id = %s AND priority = %s
            AND due_at <= %s
         ORDER BY round DESC LIMIT 1)
"""
"""Plain SQL, because it runs for every task. Running tasks are not due while their
lease is extended.
"""
WAITING_SQL = """
    SELECT count(*) FROM tasks_task
    WHERE state IN ('queued', 'running') AND user_id = %s AND priority = %s
        AND due_at > %s AND state = 'queued'
"""


def assign_rounds(rows: Sequence[Task], now: datetime) -> None:
    """Set the rounds of tasks that are about to be queued, in their order."""
    last_rounds: dict[tuple[uuid.UUID, int, bool], int] = {}
    for row in rows:
        is_due = row.due_at <= now
        key = (row.user_id, row.priority, is_due)
        if key in last_rounds:
            row.round = last_rounds[key] + 1
        else:
            next_round = _round_when_due if is_due else round_when_waiting
            row.round = next_round(row.user_id, row.priority, now)
        last_rounds[key] = row.round


def round_when_waiting(user_id: uuid.UUID, priority: int, now: datetime) -> int:
    """Return the round of one more task of a user that is due later.

    The queue's round at that time is unknown. The task is ahead of most tasks then,
    though several tasks of one user keep their own rounds.
    """
    user, at = to_column("user_id", user_id), to_column("due_at", now)
    with connection.cursor() as cursor:
        cursor.execute(WAITING_SQL, [user, priority, at])
        return 1 + int(cursor.fetchone()[0])


def _round_when_due(user_id: uuid.UUID, priority: int, now: datetime) -> int:
    """Return the round of one more task of a user that is due at once."""
    user, at = to_column("user_id", user_id), to_column("due_at", now)
    with connection.cursor() as cursor:
        cursor.execute(LAST_ROUND_SQL, [priority, at, user, priority, at])
        return 1 + max(value or 0 for value in cursor.fetchone())
