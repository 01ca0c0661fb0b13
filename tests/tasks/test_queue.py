"""The task queue: claims, fair order, lost leases, cancellation, retention."""

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

import psutil
import pytest
from django.db import connection

from config import live
from core.ids import UserId
from database import retention
from tasks.errors import LeaseLost
from tasks.models import Task, claiming, queryset
from tasks.queue import (
    lease_recovery,
    worker_identity,
)
from tasks.queue.task_spec import TaskSpec
from tests.conftest import CONFIG

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]

NOW = datetime.now(UTC)
LATER = NOW + timedelta(seconds=claiming.LEASE_SECONDS + 1)


def add(user_id: UserId, *specs: TaskSpec) -> list[Task]:
    return Task.objects.enqueue(
        specs or [TaskSpec("agent", user_id, "assistant", "x")], now=NOW
    )


def claim_for(user_id: UserId, limit: int = 10, **options):
    """Claim up to `limit` tasks of the user."""
    options = {"users": [user_id], "now": NOW, **options}
    claimed = (Task.objects.claim("agent", **options) for _ in range(limit))
    return [task for task in claimed if task is not None]


def state(task: Task) -> tuple[str, str]:
    task.refresh_from_db()
    return task.state, task.error


def spec(user_id: UserId, prompt: str, **fields) -> TaskSpec:
    return TaskSpec("agent", user_id, "assistant", prompt, **fields)


# Claiming.


def test_highest_priority_then_oldest_comes_first(user_id):
    Task.objects.enqueue([spec(user_id, "old")], now=NOW - timedelta(seconds=9))
    add(user_id, spec(user_id, "new"), spec(user_id, "urgent", priority=1))
    add(user_id, spec(user_id, "later", priority=9, delay_seconds=60))
    claimed = [work.prompt for limit in (1, 9) for work in claim_for(user_id, limit)]
    assert claimed == ["urgent", "old", "new"]


class TestFairness:
    """Users of one priority are served round-robin."""

    priorities = count(1_000)

    @pytest.fixture(autouse=True)
    def _own_priority(self) -> None:
        """Use a priority without tasks of other tests, which have rounds, too."""
        self.priority = next(self.priorities) * 2
        self.at = NOW - timedelta(seconds=1)

    @pytest.fixture
    def other(self) -> UserId:
        return UserId(uuid.uuid4())

    def prompts(self, limit: int, *users: UserId, **more) -> list[str]:
        claimed = claim_for(users[0], limit, users=users, **more)
        return [work.prompt for work in claimed]

    def add_many(
        self, user_id: UserId, count: int = 9, name: str = "a", **more
    ) -> None:
        more = {"priority": self.priority, **more}
        specs = [spec(user_id, f"{name}{n}", **more) for n in range(count)]
        self.at += timedelta(milliseconds=1)
        Task.objects.enqueue(specs, now=self.at)

    def add_one(self, user_id: UserId, prompt: str, now: datetime) -> None:
        Task.objects.enqueue([spec(user_id, prompt, priority=self.priority)], now=now)

    def test_users_are_served_round_robin(self, user_id, other):
        self.add_many(user_id)
        assert self.prompts(4, user_id, other) == ["a0", "a1", "a2", "a3"]
        self.add_many(other, 3, "b")
        claimed = [*self.prompts(1, user_id, other), *self.prompts(99, user_id, other)]
        assert claimed == ["a4", "a5", "b0", "a6", "b1", "a7", "b2", "a8"]

    def test_tasks_of_one_user_are_taken_in_order(self, user_id):
        for number in range(5):
            self.add_one(user_id, str(number), self.at)
            self.prompts(number % 2, user_id)
        self.add_many(user_id, 2)
        assert self.prompts(9, user_id) == ["2", "3", "4", "a0", "a1"]

    def test_waiting_user_is_not_starved(self, user_id, other):
        self.add_many(user_id, 4)
        claimed = []
        users = [user_id]
        for _ in range(12):
            # New users keep coming.
            users.append(UserId(uuid.uuid4()))
            self.add_one(users[-1], "new", NOW)
            claimed += self.prompts(1, *users)
        assert [name for name in claimed if name != "new"] == ["a0", "a1", "a2", "a3"]

    def test_priorities_come_first(self, user_id, other):
        self.add_many(user_id, 3, priority=self.priority + 1)
        self.add_many(other, 2, "b")
        assert self.prompts(9, user_id, other) == ["a0", "a1", "a2", "b0", "b1"]

    def test_delayed_task_counts_from_its_due_time(self, user_id, other):
        self.add_many(user_id, 3, "late", delay_seconds=20)
        self.add_many(user_id, 2)
        assert self.prompts(9, user_id) == ["a0", "a1"]
        later = NOW + timedelta(seconds=25)
        self.add_one(other, "b", later)
        assert self.prompts(9, user_id, other, now=later) == [
            "late0",
            "late1",
            "b",
            "late2",
        ]

    def test_retried_task_keeps_its_round(self, user_id, other):
        self.add_many(user_id, 4, max_failures=2)
        for work in claim_for(user_id):
            work.fail(OSError())
        later = datetime.now(UTC) + timedelta(seconds=2)
        self.add_one(other, "b", later)
        claimed = self.prompts(9, user_id, other, now=later)
        assert claimed == ["a0", "a1", "b", "a2", "a3"]

    def test_requeued_task_keeps_its_round(self, user_id, other):
        self.add_many(user_id, 4)
        for work in claim_for(user_id):
            work.fail(OSError())
        own = Task.objects.filter(user_id=user_id)
        assert own.requeue() == 4
        later = datetime.now(UTC)
        self.add_one(other, "b", later)
        claimed = self.prompts(9, user_id, other, now=later)
        assert claimed == ["a0", "a1", "b", "a2", "a3"]


def test_two_workers_never_take_the_same_task(user_id):
    add(user_id, *(spec(user_id, str(number)) for number in range(40)))
    barrier = threading.Barrier(4)

    def work(_: int) -> list[str]:
        barrier.wait()
        claimed = []
        while found := claim_for(user_id, 3):
            claimed += [work.prompt for work in found]
        connection.close()
        return claimed

    with ThreadPoolExecutor(4) as pool:
        claimed = [prompt for each in pool.map(work, range(4)) for prompt in each]
    assert sorted(map(int, claimed)) == list(range(40))


def test_duplicate_key_is_added_once(user_id):
    (first,) = add(user_id, spec(user_id, "a", key=f"k:{user_id}"))
    added = add(user_id, spec(user_id, "b", key=f"k:{user_id}"), spec(user_id, "c"))
    assert [task.prompt for task in added] == ["c"]
    assert Task.objects.get(key=f"k:{user_id}").pk == first.pk


# Lost leases.


def test_lost_task_is_restarted_three_times(user_id):
    (task,) = add(user_id)
    for number in range(1 + claiming.MAX_INTERRUPTIONS):
        now = NOW + number * (LATER - NOW)
        (work,) = claim_for(user_id, now=now)
        assert work.attempts == number + 1
        assert claim_for(user_id, now=now) == []
    now += LATER - NOW
    assert claim_for(user_id, now=now) == []
    Task.objects.close_abandoned(now=now)
    assert state(task) == ("errored", queryset.INTERRUPTED)


def test_lost_run_once_task_is_not_restarted(user_id):
    (task,) = add(user_id)
    claim_for(user_id)
    assert claim_for(user_id, now=LATER, reruns=False) == []
    Task.objects.close_abandoned(now=LATER)
    assert state(task)[0] == "running"
    Task.objects.close_abandoned(now=LATER, once=["agent"])
    assert state(task) == ("errored", queryset.INTERRUPTED)


def test_lost_cancelled_task_is_cancelled(user_id):
    (task,) = add(user_id)
    claim_for(user_id)
    task.cancel()
    assert claim_for(user_id, now=LATER) == []
    Task.objects.close_abandoned(now=LATER)
    assert state(task)[0] == "cancelled"


def test_worker_without_the_lease_cannot_close_the_task(user_id):
    (task,) = add(user_id)
    (before,) = claim_for(user_id)
    (work,) = claim_for(user_id, now=LATER)
    with pytest.raises(LeaseLost):
        before.complete("old")
    before.fail(ValueError())
    before.release()
    assert Task.objects.stopped_ids([before]) == {task.pk}
    assert Task.objects.stopped_ids([work]) == set()
    work.complete("new")
    task.refresh_from_db()
    assert (task.state, task.result) == ("done", "new")


def test_extended_lease_does_not_expire(user_id):
    add(user_id)
    (work,) = claim_for(user_id)
    Task.objects.extend_leases([work], now=LATER)
    assert claim_for(user_id, now=LATER) == []


@pytest.fixture
def dead_worker() -> str:
    """The name of a worker that was killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = psutil.Process(process.pid).create_time()
    host = worker_identity.own_name().split(":")[0]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return f"{host}:{process.pid}:{started:.0f}"


def test_tasks_of_a_dead_local_worker_are_taken_at_once(user_id, dead_worker):
    (task,) = add(user_id)
    claim_for(user_id)
    Task.objects.filter(pk=task.pk).update(worker=dead_worker)
    assert Task.objects.expire_dead_leases(now=NOW) >= 1
    (work,) = claim_for(user_id)
    assert (work.id, work.attempts) == (task.pk, 2)


def test_lost_run_once_tasks_fail_at_once(user_id, dead_worker, configure):
    configure(CONFIG + "\ntasks: {rerun_interrupted: false}\n")
    (task,) = add(user_id)
    claim_for(user_id)
    Task.objects.filter(pk=task.pk).update(worker=dead_worker)
    lease_recovery.recover_leases()
    assert state(task) == ("errored", queryset.INTERRUPTED)


def test_only_dead_local_workers_are_reported(dead_worker):
    pid, started = dead_worker.split(":")[1:]
    host = worker_identity.own_name().split(":")[0]
    assert worker_identity.ended_workers([dead_worker]) == [dead_worker]
    # As after a restart, when another process has the pid.
    assert worker_identity.ended_workers([f"{host}:{os.getpid()}:{int(started) - 999}"])
    assert (
        worker_identity.ended_workers(
            [worker_identity.own_name(), f"elsewhere:{pid}:{started}", "", "x:y:z"]
        )
        == []
    )


# Cancellation during other changes.


@contextmanager
def after_next_write(function: Callable[[], None]) -> Iterator[None]:
    """Call a function right after the next row is written."""
    pending = [function]

    def write(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if pending and sql.startswith("UPDATE"):
            pending.pop()()
        return result

    with connection.execute_wrapper(write):
        yield


def test_task_released_during_cancellation_is_cancelled(user_id):
    (task,) = add(user_id)
    (work,) = claim_for(user_id)
    with after_next_write(lambda: work.release()):
        task.cancel()
    assert state(task)[0] == "cancelled"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda work: work.release(), id="requeued"),
        pytest.param(lambda work: work.fail(OSError()), id="retried"),
    ],
)
def test_task_cancelled_during_failure_is_not_restarted(user_id, change):
    (task,) = add(user_id, spec(user_id, "x", max_failures=2))
    (work,) = claim_for(user_id)
    with after_next_write(lambda: task.cancel()):
        change(work)
    assert state(task)[0] == "cancelled"


def test_cancelled_task_that_fails_is_cancelled(user_id):
    (task,) = add(user_id)
    (work,) = claim_for(user_id)
    task.cancel()
    work.fail(OSError())
    assert state(task) == ("cancelled", "")


def test_claim_reports_whether_more_tasks_are_due(user_id):
    kind = uuid.uuid4().hex[:16]
    specs = [TaskSpec(kind, user_id, "assistant", delay_seconds=at) for at in (0, 0, 9)]
    Task.objects.enqueue(specs)
    claims = [Task.objects.claim(kind) for _ in range(2)]
    assert [claim is not None and claim.has_more for claim in claims] == [True, False]
    Task.objects.of_user(user_id).delete()


# Retention.


def test_ended_tasks_are_deleted_after_keep_days(user_id, configure):
    configure(CONFIG + "\ntasks: {keep_days: 2}\n")
    old, open_, new = (add(user_id)[0] for _ in range(3))
    long_ago = NOW - timedelta(days=3)
    Task.objects.filter(pk__in=[old.pk, open_.pk]).update(created_at=long_ago)
    Task.objects.filter(pk=old.pk).update(state="done", finished_at=long_ago)
    Task.objects.filter(pk=new.pk).update(state="done", finished_at=NOW)
    assert retention.delete_expired(Task, NOW) >= 1
    remaining = Task.objects.filter(user_id=user_id).values_list("pk", flat=True)
    assert set(remaining) == {open_.pk, new.pk}


def test_tasks_may_be_kept_forever(user_id, configure):
    configure(CONFIG + "\ntasks: {keep_days: null}\n")
    assert live.current()
    assert retention.delete_expired(Task, NOW + timedelta(days=9_999)) == 0
