"""Claims due tasks under a lease, in plain SQL because it runs for every task."""

import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.db import connection

from core.ids import UserId
from tasks.queue import worker_identity
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.column_values import to_column
from tasks.queue.lifecycle import LEASE_SECONDS, MAX_INTERRUPTIONS

CLAIM_SQL = """
    WITH found AS MATERIALIZED (
        SELECT id FROM tasks_task
        WHERE state IN ('queued', 'running') AND due_at <= %s {filters} AND (
            state = 'queued'
            OR NOT is_cancelled AND interruptions < %s {rerun_filter}
        )
        ORDER BY priority DESC, round, created_at
        LIMIT %s {lock}
    )
    UPDATE tasks_task SET
        state = 'running',
        attempts = attempts + 1,
        interruptions = interruptions + CASE state WHEN 'running' THEN 1 ELSE 0 END,
        due_at = %s,
        started_at = %s,
        worker = %s
    WHERE id IN (SELECT id FROM found)
    RETURNING id, kind, user_id, agent, prompt, payload, origin, turn_id, token_id,
        request_id, attempts, failures, max_failures, priority, round,
        created_at
"""
LOCKS = {"postgresql": "FOR UPDATE SKIP LOCKED"}
"""SQLite has a single writer, so it needs no lock clause."""


def claim_tasks(
    limit: int,
    kinds: Collection[str],
    *,
    users: Collection[UserId] | None = None,
    once: Collection[str] = (),
    now: datetime | None = None,
) -> list[ClaimedTask]:
    """Claim up to `limit` due tasks, and return them.

    Ordered by priority, then by round, then by age; with `users` only theirs. Tasks
    whose lease expired are claimed again, unless they are of kinds that run `once`. Two
    workers never claim the same task.
    """
    now = now or datetime.now(UTC)
    statement = CLAIM_SQL.format(
        filters=_in_condition("kind", kinds)
        + ("" if users is None else _in_condition("user_id", users)),
        rerun_filter=_in_condition("kind", once, negated=True) if once else "",
        lock=LOCKS.get(connection.vendor, ""),
    )
    values = [
        to_column("due_at", now),
        *kinds,
        *(to_column("user_id", user_id) for user_id in users or ()),
        MAX_INTERRUPTIONS,
        *once,
        limit,
        to_column("due_at", now + timedelta(seconds=LEASE_SECONDS)),
        to_column("started_at", now),
        worker_identity.own_name(),
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[Any] = cursor.fetchall()
    # The database returns them in any order.
    rows.sort(key=lambda row: (-row[-3], *row[-2:]))
    return [_claimed_task(row) for row in rows]


def _in_condition(name: str, values: Collection[Any], *, negated: bool = False) -> str:
    """Return the SQL condition that a column has one of these values, or none."""
    if not values:
        # SQL allows no empty list.
        return " AND 1 = 0"
    word = "NOT IN" if negated else "IN"
    return f" AND {name} {word} ({', '.join(['%s'] * len(values))})"


def _claimed_task(row: Sequence[Any]) -> ClaimedTask:
    task_id, kind, user_id, agent, prompt, payload, origin = row[:7]
    turn_id, token_id, request_id, attempts, failures, max_failures, priority = row[
        7:14
    ]
    return ClaimedTask(
        id=_uuid(task_id),
        kind=kind,
        user_id=UserId(_uuid(user_id)),
        agent=agent,
        prompt=prompt,
        payload=orjson.loads(payload) if isinstance(payload, str) else payload,
        origin=origin,
        turn_id=None if turn_id is None else _uuid(turn_id),
        token_id=None if token_id is None else _uuid(token_id),
        request_id=request_id,
        attempts=attempts,
        failures=failures,
        max_failures=max_failures,
        priority=priority,
    )


def _uuid(value: uuid.UUID | str) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
