"""Plain SQL of the queue, because it runs for every task.

A claim is one statement for most kinds. With the ORM, claiming, completing and asking
for more cost three times as much of a worker's CPU.
"""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.db import connection

from core.ids import UserId, new_id
from core.runtime import trace_context
from tasks.models import rounds
from tasks.queue import worker_identity
from tasks.queue.task_spec import TaskSpec

if TYPE_CHECKING:
    from tasks.models.queryset import TaskQuerySet
    from tasks.models.task import Task

LEASE_SECONDS = 30.0
"""Lease duration. Workers extend their leases every ten seconds."""
MAX_INTERRUPTIONS = 3
"""A task that loses its worker this often is errored."""
MAX_CHECKED = 500
"""Oldest tasks of an ordered kind that are examined first."""
SPARE_CANDIDATES = 16
"""Candidates of an ordered kind: other workers may claim some first."""

# The states are literals, not parameters: only then does SQLite use the index on open
# tasks.
NEXT_SQL = """
    SELECT id FROM tasks_task
    WHERE kind = %s AND state IN ('queued', 'running') AND due_at <= %s {users}
        AND (state = 'queued' {rerun})
    ORDER BY priority DESC, round, created_at
    LIMIT 1 {lock}
"""
CLAIM_SQL = """
    WITH found AS MATERIALIZED ({found})
    UPDATE tasks_task SET
        state = 'running',
        attempts = attempts + 1,
        interruptions = interruptions + CASE state WHEN 'running' THEN 1 ELSE 0 END,
        due_at = %s,
        started_at = %s,
        worker = %s
    WHERE id = (SELECT id FROM found)
    RETURNING *, EXISTS (
        SELECT 1 FROM tasks_task AS other
        WHERE other.kind = tasks_task.kind AND other.state IN ('queued', 'running')
            AND other.due_at <= %s AND other.id <> tasks_task.id
    ) AS has_more
"""
RERUN = f"OR NOT is_cancelled AND interruptions < {MAX_INTERRUPTIONS}"
LOCKS = {"postgresql": "FOR UPDATE SKIP LOCKED"}
"""SQLite has a single writer, so it needs no lock clause."""
LOWEST_UUID = {"postgresql": "%s::uuid"}
IS_DUE_SQL = """
    SELECT 1 FROM tasks_task
    WHERE kind = %s AND state IN ('queued', 'running') AND due_at <= %s LIMIT 1
"""
BY_ID_SQL = """
    SELECT id FROM tasks_task
    WHERE id = %s AND state IN ('queued', 'running') AND due_at <= %s {lock}
"""
FIRST_OF_OLDEST_SQL = """
    WITH oldest AS MATERIALIZED (
        SELECT id, user_id, state, interruptions, is_cancelled, due_at, created_at
        FROM tasks_task
        WHERE kind = %s AND state IN ('queued', 'running')
        ORDER BY priority DESC, round, created_at LIMIT %s
    ), ranked AS (
        SELECT id, state, interruptions, is_cancelled, due_at,
            row_number() OVER (PARTITION BY user_id ORDER BY created_at, id) AS place,
            max(CASE WHEN state = 'running' AND due_at > %s THEN 1 ELSE 0 END)
                OVER (PARTITION BY user_id) AS is_busy
        FROM oldest
    )
    SELECT id FROM ranked
    WHERE place = 1 AND is_busy = 0 AND due_at <= %s AND (state = 'queued' {rerun})
    ORDER BY due_at, id LIMIT %s
"""
"""The first open task of each user, among the oldest tasks: 1 ms."""
FIRST_OF_USERS_SQL = """
    WITH RECURSIVE users(user_id) AS (
        SELECT {lowest}
        UNION ALL
        SELECT (
            SELECT next.user_id FROM tasks_task AS next
            WHERE next.user_id > users.user_id AND next.kind || '' = %s
                AND next.state IN ('queued', 'running')
            ORDER BY next.user_id LIMIT 1
        ) FROM users WHERE users.user_id IS NOT NULL
    )
    SELECT first.id FROM users JOIN tasks_task AS first ON first.id = (
        SELECT id FROM tasks_task
        WHERE user_id = users.user_id AND kind = %s AND state IN ('queued', 'running')
        ORDER BY priority, round, created_at LIMIT 1
    )
    WHERE first.due_at <= %s AND (first.state = 'queued' {rerun})
        AND first.user_id NOT IN (
            SELECT user_id FROM tasks_task
            WHERE state = 'running' AND kind = %s AND due_at > %s
        )
    ORDER BY first.due_at, first.id LIMIT %s
"""
"""The first open task of each user, if none of the oldest can run.

It jumps from user to user in the index, so that a user's long queue costs no time. The
expression hides the kind from SQLite, which would choose the index by kind.
"""
INSERT_SQL = """
    INSERT INTO tasks_task (id, kind, user_id, agent, prompt, payload, origin, turn_id,
        token_id, request_id, traceparent, key, state, priority, round, attempts,
        failures, interruptions, max_failures, due_at, is_cancelled, worker,
        created_at, result, error)
    VALUES (%s, %s, %s, %s, '', %s, '', %s, NULL, '', %s, NULL, 'queued', 0, 0, 0, 0, 0,
        %s, %s, FALSE, '', %s, '', '')
"""


def insert(spec: TaskSpec, now: datetime) -> None:
    """Add a task of an ordered kind without further statements: every turn adds one."""
    at = connection.ops.adapt_datetimefield_value(now)
    values: list[Any] = [
        # In the order of time, so that a database writes the fewest pages.
        rounds.to_column(new_id()),
        spec.kind,
        rounds.to_column(spec.user_id),
        spec.agent,
        orjson.dumps(spec.payload).decode(),
        rounds.to_column(spec.turn_id),
        trace_context.current_traceparent(),
        spec.max_failures,
        at,
        at,
    ]
    with connection.cursor() as cursor:
        cursor.execute(INSERT_SQL, values)


def has_due(kind: str, now: datetime) -> bool:
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        cursor.execute(IS_DUE_SQL, [kind, at])
        return cursor.fetchone() is not None


def claim_next(
    tasks: "TaskQuerySet",
    kind: str,
    *,
    users: Collection[UserId] | None,
    reruns: bool,
    now: datetime,
) -> "Task | None":
    """Claim the first due task of a kind."""
    found = NEXT_SQL.format(
        users="" if users is None else _among("user_id", users),
        rerun=RERUN if reruns else "",
        lock=LOCKS.get(connection.vendor, ""),
    )
    return _claim(tasks, found, [kind, now, *map(rounds.to_column, users or ())], now)


def claim_in_order(
    tasks: "TaskQuerySet", kind: str, *, reruns: bool, now: datetime
) -> "Task | None":
    """Claim the task of a kind that is due longest and the first open one of its user.

    None of a user whose task is running is claimed.
    """
    found = BY_ID_SQL.format(lock=LOCKS.get(connection.vendor, ""))
    # Read before the claim: it may take a while, and SQLite has one writer.
    for task_id in _first_tasks(kind, reruns=reruns, now=now):
        if task := _claim(tasks, found, [task_id, now], now):
            return task
    return None


def _first_tasks(kind: str, *, reruns: bool, now: datetime) -> list[Any]:
    at = connection.ops.adapt_datetimefield_value(now)
    rerun = RERUN if reruns else ""
    oldest: list[Any] = [kind, MAX_CHECKED, at, at, SPARE_CANDIDATES]
    with connection.cursor() as cursor:
        cursor.execute(FIRST_OF_OLDEST_SQL.format(rerun=rerun), oldest)
        if not (rows := cursor.fetchall()):
            lowest = LOWEST_UUID.get(connection.vendor, "%s")
            of_users = FIRST_OF_USERS_SQL.format(lowest=lowest, rerun=rerun)
            zero = rounds.to_column(uuid.UUID(int=0))
            cursor.execute(of_users, [zero, kind, kind, at, kind, at, SPARE_CANDIDATES])
            rows = cursor.fetchall()
    return [task_id for (task_id,) in rows]


def _claim(
    tasks: "TaskQuerySet", found: str, values: list[Any], now: datetime
) -> "Task | None":
    lease = now + timedelta(seconds=LEASE_SECONDS)
    worker = worker_identity.own_name()
    rows = tasks.raw(CLAIM_SQL.format(found=found), [*values, lease, now, worker, now])
    return next(iter(list(rows)), None)


def _among(name: str, values: Collection[Any]) -> str:
    """Return the SQL condition that a column has one of these values."""
    # SQL allows no empty list.
    return f"AND {name} IN ({', '.join(['%s'] * len(values)) or 'NULL'})"
