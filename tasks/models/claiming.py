"""Plain SQL of the queue, because it runs for every task.

A claim is one statement for most kinds. With the ORM, claiming, completing and asking
for more cost three times as much of a worker's CPU.
"""

import uuid
from collections.abc import Collection, Sequence
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
MAX_CHECKED = 100
"""Oldest tasks of an ordered kind that are examined first."""
MAX_USERS = 50
"""Users that are examined then: a claim takes the same time whatever the queue holds.
"""
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
    RETURNING *, (
        SELECT 1 FROM tasks_task AS other
        WHERE other.kind = tasks_task.kind AND other.state = 'queued'
            AND other.due_at <= %s AND other.id <> tasks_task.id
        ORDER BY other.due_at LIMIT 1
    ) IS NOT NULL AS has_more
"""
"""The order makes PostgreSQL use the index: it would read ended tasks up to the first
queued one.
"""
RERUN = f"OR NOT is_cancelled AND interruptions < {MAX_INTERRUPTIONS}"
LOCKS = {"postgresql": "FOR UPDATE SKIP LOCKED"}
"""SQLite has a single writer, so it needs no lock clause."""
AFTER = {"postgresql": "%(after)s::uuid"}
BY_ID_SQL = """
    SELECT id FROM tasks_task
    WHERE id = %s AND state IN ('queued', 'running') AND due_at <= %s {lock}
"""
IS_KIND_DUE_SQL = """
    SELECT CAST(%s AS text) WHERE (
        SELECT 1 FROM tasks_task
        WHERE kind = %s AND state = 'queued' AND due_at <= %s
        ORDER BY due_at LIMIT 1
    ) IS NOT NULL
"""
EXPIRED_KINDS_SQL = """
    SELECT DISTINCT kind FROM tasks_task WHERE state = 'running' AND due_at <= %s
"""
FIRST_OF_USER_SQL = """(
    SELECT own.id FROM tasks_task AS own
    WHERE own.user_id = {row}.user_id AND own.kind = %(kind)s
        AND own.state IN ('queued', 'running')
    ORDER BY own.priority, own.round, own.created_at LIMIT 1
)"""
CAN_RUN_SQL = """
    {row}.due_at <= %(now)s AND ({row}.state = 'queued' {rerun}) AND (
        SELECT 1 FROM tasks_task AS busy
        WHERE busy.user_id = {row}.user_id AND busy.kind = %(kind)s
            AND busy.state = 'running' AND busy.due_at > %(now)s
        LIMIT 1
    ) IS NULL
"""
"""Whether a user's first task is due and none of them runs. Each of the two subqueries
is one look-up in an index, however many tasks the user has.
"""
FIRST_AMONG_SQL = """
    SELECT id FROM (
        SELECT id, user_id, state, interruptions, is_cancelled, due_at
        FROM tasks_task WHERE kind = %(kind)s AND {chosen} LIMIT %(checked)s
    ) AS oldest
    WHERE id = {first_of_user} AND {can_run}
    ORDER BY due_at, id LIMIT %(spare)s
"""
CHOSEN_SQL = (
    "state IN ('queued', 'running') ORDER BY priority DESC, round, created_at",
    "state = 'queued' AND due_at <= %(now)s ORDER BY due_at",
)
"""The oldest tasks; if none can run, as while all wait for a retry, those that have
been due longest."""
FIRST_OF_USERS_SQL = """
    WITH RECURSIVE users(user_id, number) AS (
        SELECT {after}, 0
        UNION ALL
        SELECT (
            SELECT next.user_id FROM tasks_task AS next
            WHERE next.user_id > users.user_id AND next.kind || '' = %(kind)s
                AND next.state IN ('queued', 'running')
            ORDER BY next.user_id LIMIT 1
        ), number + 1
        FROM users WHERE users.user_id IS NOT NULL AND number < %(users)s
    )
    SELECT first.id FROM tasks_task AS first
    WHERE first.id IN (SELECT {first_of_user} FROM users) AND {can_run}
    ORDER BY first.due_at, first.id LIMIT %(spare)s
"""
"""The same of the next users after an id, if none of the oldest tasks can run.

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


def due_kinds(kinds: Sequence[str], now: datetime) -> list[str]:
    """Return the kinds of which a worker could claim a task, in one statement."""
    at = connection.ops.adapt_datetimefield_value(now)
    sql = " UNION ".join([*[IS_KIND_DUE_SQL] * len(kinds), EXPIRED_KINDS_SQL])
    with connection.cursor() as cursor:
        cursor.execute(
            sql, [*(each for kind in kinds for each in (kind, kind, at)), at]
        )
        return [kind for (kind,) in cursor.fetchall() if kind in kinds]


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
    rerun = RERUN if reruns else ""
    values: dict[str, Any] = {
        "kind": kind,
        "now": connection.ops.adapt_datetimefield_value(now),
        "checked": MAX_CHECKED,
        "users": MAX_USERS,
        "spare": SPARE_CANDIDATES,
    }
    for chosen in CHOSEN_SQL:
        first_among = FIRST_AMONG_SQL.format(
            chosen=chosen,
            first_of_user=FIRST_OF_USER_SQL.format(row="oldest"),
            can_run=CAN_RUN_SQL.format(row="oldest", rerun=rerun),
        )
        if found := _fetch_ids(first_among, values):
            return found
    of_users = FIRST_OF_USERS_SQL.format(
        after=AFTER.get(connection.vendor, "%(after)s"),
        first_of_user=FIRST_OF_USER_SQL.format(row="users"),
        can_run=CAN_RUN_SQL.format(row="first", rerun=rerun),
    )
    # From a random user on, so that in time all have their turn; then from the first,
    # because a short queue has none after most.
    for after in (uuid.uuid4(), uuid.UUID(int=0)):
        if found := _fetch_ids(of_users, {**values, "after": rounds.to_column(after)}):
            return found
    return []


def _fetch_ids(sql: str, values: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [task_id for (task_id,) in cursor.fetchall()]


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
