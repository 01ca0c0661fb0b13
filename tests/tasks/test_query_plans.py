"""Queries of the queue use its partial indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from tasks.models import Task
from tasks.queue import claim, fair_scheduling, lifecycle
from tasks.reports import task_queries

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]

NOW = datetime.now(UTC)


@contextmanager
def recorded_queries() -> Iterator[list[tuple[str, Any]]]:
    """Record the queries to the database."""
    queries: list[tuple[str, Any]] = []

    def record(execute, sql, params, many, context):
        queries.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        yield queries


def plans(queries: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield the query plan of each query."""
    is_sqlite = connection.vendor == "sqlite"
    with transaction.atomic(), connection.cursor() as cursor:
        if not is_sqlite:  # With few rows, it would scan the table.
            cursor.execute("SET LOCAL enable_seqscan = off")
        for sql, params in queries:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{sql}", params)
            yield str(cursor.fetchall())


def test_queue_queries_use_the_partial_index(user_id):
    """SQLite uses an index on a condition only for a query in the same words."""
    with recorded_queries() as queries:
        claim.claim_tasks(9, ["other"])
        lifecycle.close_abandoned(now=NOW)
        lifecycle.expire_dead_leases(now=NOW)
        lifecycle.count_open(user_id, ["agent"], 5)
        for delay in (-1, 1):
            fair_scheduling.assign_rounds(
                [Task(user_id=user_id, due_at=NOW + timedelta(delay))], NOW
            )
    # One more if other tests have left leases of workers that ended.
    assert len(queries) in (7, 8)
    # All plans are read first: an unfinished generator would keep its transaction.
    assert all("tasks_task_open" in plan for plan in list(plans(queries)))


def test_failed_task_queries_skip_done_tasks(user_id):
    failed = ["errored", "cancelled"]
    with recorded_queries() as queries:
        for states in ([failed[0]], [failed[1]], failed):
            task_queries.page_tasks(states=states)
            task_queries.page_tasks(user_id=user_id, states=states)
            task_queries.page_tasks(
                user_id=user_id, states=states, after=(NOW, user_id)
            )
        task_queries.count_errors()
    assert len(queries) == 10
    assert ["tasks_task_failed" in plan for plan in plans(queries)] == [True] * 10
    with recorded_queries() as queries:
        task_queries.page_tasks(states=["errored", "done"])
    assert "tasks_task_failed" not in next(plans(queries))
