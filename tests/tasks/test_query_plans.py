"""Queries of the queue use its partial indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from tasks.models import Task, rounds

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
        if not is_sqlite:  # With few rows, it would scan and sort the table.
            cursor.execute(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
            )
        for sql, params in queries:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{sql}", params)
            yield str(cursor.fetchall())


def test_queue_queries_use_the_partial_index(user_id):
    """SQLite uses an index on a condition only for a query in the same words."""
    with recorded_queries() as queries:
        Task.objects.claim("other")
        Task.objects.due_kinds(["other", "agent"], NOW)
        list(Task.objects.delayed_until(["other", "agent"], NOW, NOW)[:9])
        Task.objects.count_open(NOW)
        Task.objects.close_abandoned(now=NOW)
        Task.objects.expire_dead_leases(now=NOW)
        Task.objects.of_user(user_id).open()[:5].count()
        for delay in (-1, 1):
            rounds.assign_rounds(
                [Task(kind="agent", user_id=user_id, due_at=NOW + timedelta(delay))],
                NOW,
            )
    # One more if other tests have left leases of workers that ended.
    assert len(queries) in (31, 32)
    # All plans are read first: an unfinished generator would keep its transaction.
    found = list(plans(queries))
    indexes = ("tasks_task_open", "tasks_task_running", "tasks_task_due")
    assert all(any(name in plan for name in indexes) for plan in found), found


def test_failed_task_queries_skip_done_tasks(user_id):
    failed = ["errored", "cancelled"]
    with recorded_queries() as queries:
        for states in ([failed[0]], [failed[1]], failed):
            Task.objects.of_kind(None).in_states(states).page(20)
            of_user = Task.objects.visible_to(user_id).in_states(states)
            of_user.page(20)
            of_user.page(20, (NOW, user_id))
            Task.objects.listed().in_states(states).page(20)
        Task.objects.count_errors()
        Task.objects.count_errored()
    of_tasks = [query for query in queries if '"tasks_task"' in query[0]]
    assert len(of_tasks) == 14
    found = list(plans(of_tasks))
    # A user's tasks of one kind are few enough.
    indexes = ("tasks_task_failed", "tasks_task_of_user")
    assert all(any(name in plan for name in indexes) for plan in found), found
    with recorded_queries() as queries:
        Task.objects.of_kind(None).in_states(["errored", "done"]).page(20)
    assert "tasks_task_failed" not in next(plans(queries))


def test_lists_use_their_indexes():
    with recorded_queries() as queries:
        Task.objects.of_kind(None).page(20)
        Task.objects.of_kind("extraction").page(20)
        Task.objects.triggered().page(20, (NOW, uuid4()))
    of_tasks = [query for query in queries if '"tasks_task"' in query[0]]
    names = ("tasks_task_newest", "tasks_task_extraction", "tasks_task_triggered")
    found = list(plans(of_tasks))
    assert len(found) == 3
    assert all(name in plan for name, plan in zip(names, found, strict=True)), found
    assert "TEMP B-TREE" not in "".join(found)
