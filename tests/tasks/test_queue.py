"""Rows are taken by one worker at a time, and taken up when that dies."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import psutil
import pytest
from django.db import connection, transaction

from config import live
from core.ids import UserId
from tasks.models import Task
from tasks.queue import (
    claim,
    fair_scheduling,
    lease_recovery,
    lifecycle,
    retention,
    worker_identity,
)
from tasks.queue.lifecycle import TaskSpec
from tasks.reports import task_queries
from tests.conftest import CONFIG

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]

NOW = datetime.now(UTC)
LATER = NOW + timedelta(seconds=lifecycle.LEASE_SECONDS + 1)


def add(user_id: UserId, *drafts: TaskSpec) -> list[Task]:
    return lifecycle.enqueue(
        drafts or [TaskSpec("agent", user_id, "assistant", "x")], now=NOW
    )


def take(user_id: UserId, limit: int = 10, **more):
    return claim.claim_tasks(limit, ["agent"], users=[user_id], **{"now": NOW, **more})


def state(task: Task) -> tuple[str, str]:
    task.refresh_from_db()
    return task.state, task.error


def draft(user_id: UserId, prompt: str, **fields) -> TaskSpec:
    return TaskSpec("agent", user_id, "assistant", prompt, **fields)


# Taken.


def test_highest_priority_then_oldest_comes_first(user_id):
    lifecycle.enqueue([draft(user_id, "old")], now=NOW - timedelta(seconds=9))
    add(user_id, draft(user_id, "new"), draft(user_id, "urgent", priority=1))
    add(user_id, draft(user_id, "later", priority=9, delay_seconds=60))
    taken = [work.prompt for limit in (1, 9) for work in take(user_id, limit)]
    assert taken == ["urgent", "old", "new"]


class TestTurns:
    """Of one priority, users take turns."""

    priorities = count(1_000)

    @pytest.fixture(autouse=True)
    def of_its_own(self) -> None:
        """What other tests left in the queue has rounds, too."""
        self.priority = next(self.priorities) * 2
        self.at = NOW - timedelta(seconds=1)

    @pytest.fixture
    def other(self) -> UserId:
        return UserId(uuid.uuid4())

    def prompts(self, limit: int, *users: UserId, **more) -> list[str]:
        taken = claim.claim_tasks(limit, ["agent"], users=users, **{"now": NOW, **more})
        return [work.prompt for work in taken]

    def many(self, user_id: UserId, count: int = 9, name: str = "a", **more) -> None:
        more = {"priority": self.priority, **more}
        wanted = [draft(user_id, f"{name}{n}", **more) for n in range(count)]
        self.at += timedelta(milliseconds=1)
        lifecycle.enqueue(wanted, now=self.at)

    def one(self, user_id: UserId, prompt: str, now: datetime) -> None:
        lifecycle.enqueue([draft(user_id, prompt, priority=self.priority)], now=now)

    def test_users_are_served_round_robin(self, user_id, other):
        self.many(user_id)
        assert self.prompts(4, user_id, other) == ["a0", "a1", "a2", "a3"]
        self.many(other, 3, "b")
        taken = [*self.prompts(1, user_id, other), *self.prompts(99, user_id, other)]
        assert taken == ["a4", "a5", "b0", "a6", "b1", "a7", "b2", "a8"]

    def test_tasks_of_one_user_are_taken_in_order(self, user_id):
        for number in range(5):
            self.one(user_id, str(number), self.at)
            self.prompts(number % 2, user_id)
        self.many(user_id, 2)
        assert self.prompts(9, user_id) == ["2", "3", "4", "a0", "a1"]

    def test_waiting_user_is_not_starved(self, user_id, other):
        self.many(user_id, 4)
        taken = []
        users = [user_id]
        for _ in range(12):
            # There is always somebody new.
            users.append(UserId(uuid.uuid4()))
            self.one(users[-1], "new", NOW)
            taken += self.prompts(1, *users)
        assert [name for name in taken if name != "new"] == ["a0", "a1", "a2", "a3"]

    def test_priorities_come_first(self, user_id, other):
        self.many(user_id, 3, priority=self.priority + 1)
        self.many(other, 2, "b")
        assert self.prompts(9, user_id, other) == ["a0", "a1", "a2", "b0", "b1"]

    def test_delayed_task_counts_from_its_due_time(self, user_id, other):
        self.many(user_id, 3, "late", delay_seconds=20)
        self.many(user_id, 2)
        assert self.prompts(9, user_id) == ["a0", "a1"]
        later = NOW + timedelta(seconds=25)
        self.one(other, "b", later)
        assert self.prompts(9, user_id, other, now=later) == [
            *("late0", "late1", "b", "late2")
        ]

    def test_retried_task_keeps_its_round(self, user_id, other):
        self.many(user_id, 4, max_failures=2)
        for work in take(user_id):
            lifecycle.record_failure(work, OSError())
        later = datetime.now(UTC) + timedelta(seconds=lifecycle.MIN_BACKOFF_SECONDS)
        self.one(other, "b", later)
        taken = self.prompts(9, user_id, other, now=later)
        assert taken == ["a0", "a1", "b", "a2", "a3"]

    def test_requeued_task_keeps_its_round(self, user_id, other):
        self.many(user_id, 4)
        for work in take(user_id):
            lifecycle.record_failure(work, OSError())
        own = Task.objects.filter(user_id=user_id)
        assert lifecycle.requeue(own.values_list("pk", flat=True)) == 4
        later = datetime.now(UTC)
        self.one(other, "b", later)
        taken = self.prompts(9, user_id, other, now=later)
        assert taken == ["a0", "a1", "b", "a2", "a3"]


def test_two_workers_never_take_the_same_task(user_id):
    add(user_id, *(draft(user_id, str(number)) for number in range(40)))
    barrier = threading.Barrier(4)

    def work(_: int) -> list[str]:
        barrier.wait()
        taken = []
        while found := take(user_id, 3):
            taken += [work.prompt for work in found]
        connection.close()
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [prompt for each in pool.map(work, range(4)) for prompt in each]
    assert sorted(map(int, taken)) == list(range(40))


def test_duplicate_key_is_added_once(user_id):
    (first,) = add(user_id, draft(user_id, "a", key=f"k:{user_id}"))
    added = add(user_id, draft(user_id, "b", key=f"k:{user_id}"), draft(user_id, "c"))
    assert [task.prompt for task in added] == ["c"]
    assert Task.objects.get(key=f"k:{user_id}").pk == first.pk


# Lost.


def test_lost_task_is_restarted_three_times(user_id):
    (task,) = add(user_id)
    for number in range(1 + lifecycle.MAX_INTERRUPTIONS):
        now = NOW + number * (LATER - NOW)
        (work,) = take(user_id, now=now)
        assert work.attempts == number + 1
        assert take(user_id, now=now) == []
    now += LATER - NOW
    assert take(user_id, now=now) == []
    lifecycle.close_abandoned(now=now)
    assert state(task) == ("errored", lifecycle.INTERRUPTED)


def test_lost_run_once_task_is_not_restarted(user_id):
    (task,) = add(user_id)
    take(user_id)
    assert take(user_id, now=LATER, once=["agent"]) == []
    lifecycle.close_abandoned(now=LATER)
    assert state(task)[0] == "running"
    lifecycle.close_abandoned(now=LATER, once=["agent"])
    assert state(task) == ("errored", lifecycle.INTERRUPTED)


def test_lost_cancelled_task_is_cancelled(user_id):
    (task,) = add(user_id)
    take(user_id)
    lifecycle.cancel(task.pk)
    assert take(user_id, now=LATER) == []
    lifecycle.close_abandoned(now=LATER)
    assert state(task)[0] == "cancelled"


def test_worker_without_the_lease_cannot_close_the_task(user_id):
    (task,) = add(user_id)
    (before,) = take(user_id)
    (work,) = take(user_id, now=LATER)
    with pytest.raises(lifecycle.LeaseLost):
        lifecycle.complete_with(before, "old")
    lifecycle.record_failure(before, ValueError())
    lifecycle.release_leases([before])
    assert lifecycle.cancelled_ids([before]) == {task.pk}
    assert lifecycle.cancelled_ids([work]) == set()
    lifecycle.complete_with(work, "new")
    task.refresh_from_db()
    assert (task.state, task.result) == ("done", "new")


def test_extended_lease_does_not_expire(user_id):
    add(user_id)
    (work,) = take(user_id)
    lifecycle.extend_leases([work], now=LATER)
    assert take(user_id, now=LATER) == []


@pytest.fixture
def dead() -> str:
    """The name of a worker that was killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = psutil.Process(process.pid).create_time()
    host = worker_identity.own_name().split(":")[0]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return f"{host}:{process.pid}:{started:.0f}"


def test_tasks_of_a_dead_local_worker_are_taken_at_once(user_id, dead):
    (task,) = add(user_id)
    take(user_id)
    Task.objects.filter(pk=task.pk).update(worker=dead)
    assert lifecycle.expire_dead_leases(now=NOW) >= 1
    (work,) = take(user_id)
    assert (work.id, work.attempts) == (task.pk, 2)


def test_lost_run_once_tasks_fail_at_once(user_id, dead, configure):
    configure(CONFIG + "\ntasks: {rerun_interrupted: false}\n")
    (task,) = add(user_id)
    take(user_id)
    Task.objects.filter(pk=task.pk).update(worker=dead)
    lease_recovery.recover_leases()
    assert state(task) == ("errored", lifecycle.INTERRUPTED)


def test_only_dead_local_workers_are_reported(dead):
    pid, started = dead.split(":")[1:]
    host = worker_identity.own_name().split(":")[0]
    assert worker_identity.ended_workers([dead]) == [dead]
    # As after a restart: the number is another process's now.
    assert worker_identity.ended_workers([f"{host}:{os.getpid()}:{int(started) - 999}"])
    assert (
        worker_identity.ended_workers(
            [worker_identity.own_name(), f"elsewhere:{pid}:{started}", "", "x:y:z"]
        )
        == []
    )


# Cancelled while it changes hands.


@contextmanager
def once_written(do: Callable[[], None]) -> Iterator[None]:
    """Have something else done right after the next row is written."""
    todo = [do]

    def write(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if todo and sql.startswith("UPDATE"):
            todo.pop()()
        return result

    with connection.execute_wrapper(write):
        yield


def test_task_released_during_cancellation_is_cancelled(user_id):
    (task,) = add(user_id)
    (work,) = take(user_id)
    with once_written(lambda: lifecycle.release_leases([work])):
        lifecycle.cancel(task.pk)
    assert state(task)[0] == "cancelled"


@pytest.mark.parametrize(
    "let_go",
    [
        pytest.param(lambda work: lifecycle.release_leases([work]), id="put back"),
        pytest.param(
            lambda work: lifecycle.record_failure(work, OSError()), id="tried again"
        ),
    ],
)
def test_task_cancelled_during_failure_is_not_restarted(user_id, let_go):
    (task,) = add(user_id, draft(user_id, "x", max_failures=2))
    (work,) = take(user_id)
    with once_written(lambda: lifecycle.cancel(task.pk)):
        let_go(work)
    assert state(task)[0] == "cancelled"


def test_cancelled_task_that_fails_is_cancelled(user_id):
    (task,) = add(user_id)
    (work,) = take(user_id)
    lifecycle.cancel(task.pk)
    lifecycle.record_failure(work, OSError())
    assert state(task) == ("cancelled", "")


# However many there were.


@contextmanager
def asked() -> Iterator[list[tuple[str, Any]]]:
    """What is asked of the database."""
    seen: list[tuple[str, Any]] = []

    def note(execute, sql, params, many, context):
        seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield seen


def plans(seen: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield how the database goes about each of these."""
    is_sqlite = connection.vendor == "sqlite"
    with transaction.atomic(), connection.cursor() as cursor:
        if not is_sqlite:  # It would read these few rows whole.
            cursor.execute("SET LOCAL enable_seqscan = off")
        for sql, params in seen:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{sql}", params)
            yield str(cursor.fetchall())


def test_queue_queries_use_the_partial_index(user_id):
    """SQLite uses an index on a condition only for a query in the same words."""
    with asked() as seen:
        claim.claim_tasks(9, ["other"])
        lifecycle.close_abandoned(now=NOW)
        lifecycle.expire_dead_leases(now=NOW)
        lifecycle.count_open(user_id, ["agent"], 5)
        for delay in (-1, 1):
            fair_scheduling.assign_rounds(
                [Task(user_id=user_id, due_at=NOW + timedelta(delay))], NOW
            )
    assert len(seen) == 7
    # All of them, before one is judged: what is half read keeps its transaction.
    assert all("tasks_task_open" in plan for plan in list(plans(seen)))


def test_failed_task_queries_skip_done_tasks(user_id):
    failed = ["errored", "cancelled"]
    with asked() as seen:
        for states in ([failed[0]], [failed[1]], failed):
            task_queries.page_tasks(states=states)
            task_queries.page_tasks(user_id=user_id, states=states)
            task_queries.page_tasks(
                user_id=user_id, states=states, after=(NOW, user_id)
            )
        task_queries.count_errors()
    assert len(seen) == 10
    assert ["tasks_task_failed" in plan for plan in plans(seen)] == [True] * 10
    with asked() as seen:
        task_queries.page_tasks(states=["errored", "done"])
    assert "tasks_task_failed" not in next(plans(seen))


# Kept for a while.


def test_ended_tasks_are_deleted_after_keep_days(user_id, configure):
    configure(CONFIG + "\ntasks: {keep_days: 2}\n")
    old, open_, young = (add(user_id)[0] for _ in range(3))
    long_ago = NOW - timedelta(days=3)
    Task.objects.filter(pk__in=[old.pk, open_.pk]).update(created_at=long_ago)
    Task.objects.filter(pk=old.pk).update(state="done", finished_at=long_ago)
    Task.objects.filter(pk=young.pk).update(state="done", finished_at=NOW)
    assert retention.delete_expired(NOW) >= 1
    left = Task.objects.filter(user_id=user_id).values_list("pk", flat=True)
    assert set(left) == {open_.pk, young.pk}


def test_tasks_may_be_kept_forever(user_id, configure):
    configure(CONFIG + "\ntasks: {keep_days: null}\n")
    assert live.current()
    assert retention.delete_expired(NOW + timedelta(days=9_999)) == 0
