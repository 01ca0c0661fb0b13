"""Claims and recovery take the same time whatever a long queue holds.

PostgreSQL is measured by the pages that it reads, SQLite by the steps of its programs:
both are the same on a busy machine.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from core.runtime import shared_clock
from tasks.models import EXTRACTION, Task
from tasks.queue import lease_recovery, publisher, queue_metrics
from tests.tasks.test_query_plans import recorded_queries

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]

IS_POSTGRESQL = connection.vendor == "postgresql"
MANY = 300_000 if IS_POSTGRESQL else 60_000
USERS = MANY // 3
HOUR = 3600
MAX_PAGES = 2_500
"""About two milliseconds."""
MAX_STEPS = 60_000
"""The same for SQLite."""
ADD_SQL = {
    True: """
        INSERT INTO tasks_task (id, kind, user_id, agent, prompt, payload, origin,
            request_id, traceparent, state, priority, round, attempts, failures,
            interruptions, max_failures, due_at, is_cancelled, worker, created_at,
            result, error)
        SELECT gen_random_uuid(), %(kind)s,
            md5((%(first)s + number % %(users)s)::text)::uuid,
            'assistant', '', '{}', '', '', '', %(state)s, 0, 0, 1, 0, 0, 5,
            %(now)s + %(due)s * interval '1 s', false, '',
            %(now)s + %(created)s * interval '1 s' + number * interval '1 ms', '', ''
        FROM generate_series(1, %(count)s) AS number
    """.replace("number % %", "number %% %"),
    False: """
        INSERT INTO tasks_task (id, kind, user_id, agent, prompt, payload, origin,
            request_id, traceparent, state, priority, round, attempts, failures,
            interruptions, max_failures, due_at, is_cancelled, worker, created_at,
            result, error)
        WITH RECURSIVE numbers(number) AS (
            SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < %(count)s
        )
        SELECT lower(hex(randomblob(16))), %(kind)s, printf('%%08x',
                (%(first)s + number %% %(users)s) * 2654435761 %% 4294967296)
                || '00004000800000000000000a',
            'assistant', '', '{}', '', '', '', %(state)s, 0, 0, 1, 0, 0, 5,
            strftime('%%Y-%%m-%%d %%H:%%M:%%f', %(now)s, %(due)s || ' seconds'), 0, '',
            strftime('%%Y-%%m-%%d %%H:%%M:%%f', %(now)s,
                (%(created)s + number / 1000.0) || ' seconds'), '', ''
        FROM numbers
    """,
}
"""Tasks of users in turn, the first ones the oldest."""


@pytest.fixture(autouse=True)
def no_other_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(publisher, "notify", lambda *_: None)
    Task.objects.all().delete()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"{'TRUNCATE' if IS_POSTGRESQL else 'DELETE FROM'} tasks_task")
        # Other tests expect no statistics.
        if IS_POSTGRESQL:
            cursor.execute(
                "DELETE FROM pg_statistic WHERE starelid = 'tasks_task'::regclass"
            )
        else:
            cursor.execute("DELETE FROM sqlite_stat1")
            cursor.execute("ANALYZE sqlite_schema")


def add(
    count: int,
    *,
    users: int = USERS,
    first: int = 0,
    state: str = "queued",
    kind: str = EXTRACTION,
    due: float = -HOUR,
    created: float = -HOUR,
) -> None:
    """Add tasks; `due` and `created` are seconds from now."""
    values = {"count": count, "users": users, "first": first, "state": state}
    values |= {"kind": kind, "due": due, "created": created, "now": shared_clock.now()}
    with connection.cursor() as cursor:
        cursor.execute(ADD_SQL[IS_POSTGRESQL], values)


def busy_users() -> None:
    """The thousand oldest tasks are of 50 users, of each of whom one runs."""
    add(50, users=50, state="running", due=HOUR, created=-3 * HOUR)
    add(1_000, users=50, created=-2 * HOUR)
    add(MANY, first=1_000)


def busy_user() -> None:
    """A third of all tasks are older, and of one user of whom one runs."""
    add(1, users=1, state="running", due=HOUR, created=-3 * HOUR)
    add(USERS, users=1, created=-2 * HOUR)
    add(MANY - USERS, first=1_000)


def outage() -> None:
    """The first task of each user waits for a retry."""
    add(USERS, due=HOUR, created=-2 * HOUR)
    add(MANY - USERS)


CASES = {
    "plain": (lambda: add(MANY), True),
    "busy users": (busy_users, True),
    "busy user": (busy_user, True),
    "outage": (outage, False),
}


@pytest.mark.parametrize("case", CASES)
def test_claim_of_an_ordered_kind_reads_little(case: str) -> None:
    fill, is_found = CASES[case]
    fill()
    analyze()
    found: list[Task | None] = []
    assert cost(lambda: found.append(Task.objects.claim(EXTRACTION))) <= limit()
    assert [task is not None for task in found] == [is_found]


def test_due_tasks_are_found_among_many_that_wait_for_a_retry() -> None:
    add(USERS, due=HOUR, created=-2 * HOUR)
    add(3, users=3, first=USERS + 1, created=-HOUR)
    analyze()
    claimed = [Task.objects.claim(EXTRACTION) for _ in range(4)]
    assert [task is not None for task in claimed] == [True, True, True, False]


def test_recovery_and_figures_read_little() -> None:
    add(MANY - USERS)
    add(USERS, kind="agent", due=HOUR)
    add(100, kind="agent", state="running", due=30)
    analyze()
    assert cost(lease_recovery.recover_leases) <= limit()
    assert cost(lease_recovery.publish_permits) <= limit() / 10
    # It counts up to ten thousand tasks of each kind and state.
    assert cost(queue_metrics.read_figures) <= 5 * limit()


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE tasks_task" if IS_POSTGRESQL else "ANALYZE")


def limit() -> int:
    return MAX_PAGES if IS_POSTGRESQL else MAX_STEPS


def cost(work: Callable[[], Any]) -> int:
    """Return what the queries of some work read, without keeping its changes."""
    if not IS_POSTGRESQL:
        return _count_steps(work)
    with transaction.atomic(), recorded_queries() as queries:
        work()
    pages = 0
    with transaction.atomic(), connection.cursor() as cursor:
        for sql, params in queries:
            if "tasks_task" not in sql:
                continue
            cursor.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) {sql}", params
            )
            plan = cursor.fetchone()[0]
            found = json.loads(plan) if isinstance(plan, str) else plan
            assert "Seq Scan" not in json.dumps(found), found
            pages += found[0]["Plan"]["Shared Hit Blocks"]
            pages += found[0]["Plan"]["Shared Read Blocks"]
        transaction.set_rollback(True)
    return pages


def _count_steps(work: Callable[[], Any]) -> int:
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, 100)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps[0] * 100
