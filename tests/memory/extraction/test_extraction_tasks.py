"""Extraction tasks: none is lost, claimed twice or out of order."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import pseudonym
from memory.extraction import extraction_tasks, extraction_worker
from memory.extraction.extraction_tasks import ExtractionTask, read_result
from memory.extraction.extraction_worker import ExtractionFailed
from memory.models import Owner
from tasks.errors import LeaseLost
from tasks.models import EXTRACTION, Task, claiming
from tests.memory.extraction_harness import (
    NOON,
    add_turn,
    change_payload,
    new_user,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]

NOW = NOON + timedelta(minutes=1)
LATER = NOON + timedelta(hours=1)


def claim(limit: int = 10, *, now: datetime = NOW) -> list[Task]:
    claimed = (Task.objects.claim(EXTRACTION, now=now) for _ in range(limit))
    return [task for task in claimed if task is not None]


def ids(tasks: list[Task]) -> list[object]:
    return [task.pk for task in tasks]


def states() -> list[str]:
    rows = Task.objects.extractions().order_by("created_at")
    return list(rows.values_list("state", flat=True))


def complete(task: Task, **counts: int) -> None:
    ExtractionTask.read(task).complete(**counts)


def test_claim_returns_oldest_tasks():
    jobs = [add_turn(new_user(), "hello") for _ in range(4)]
    assert ids(claim(3)) == ids(jobs[:3])
    assert ids(claim(3)) == ids(jobs[3:])
    assert claim() == []


def test_retried_task_queues_behind_waiting_tasks():
    # Otherwise a model that hangs would block the workers for all users.
    slow, fresh = add_turn(new_user(), "slow"), add_turn(new_user(), "fresh")
    Task.objects.filter(pk=slow.pk).update(due_at=NOON + timedelta(seconds=1))
    assert ids(claim(1)) == [fresh.pk]
    assert ids(claim(1)) == [slow.pk]


def test_claim_runs_one_task_per_user_in_order(owner):
    first, second = add_turn(owner, "one"), add_turn(owner, "two")
    (taken,) = claim()
    assert taken.pk == first.pk
    assert (taken.state, taken.attempts, taken.user_id) == ("running", 1, owner)
    complete(taken)
    assert ids(claim()) == [second.pk]


def test_one_user_does_not_block_another(owner):
    first = add_turn(owner, "one")
    add_turn(owner, "two")
    other = add_turn(new_user(), "three")
    assert ids(claim()) == [first.pk, other.pk]


def test_paused_task_blocks_the_users_later_tasks(owner):
    first, _second = add_turn(owner, "one"), add_turn(owner, "two")
    Task.objects.filter(pk=first.pk).update(due_at=LATER)
    assert claim() == []
    assert ids(claim(now=LATER)) == [first.pk]


def test_replayed_older_task_waits_for_the_running_one(owner):
    first, _second = add_turn(owner, "one"), add_turn(owner, "two")
    (taken,) = claim()
    taken.fail(ValueError(), is_final=True)
    (running,) = claim(now=datetime.now(UTC))
    assert Task.objects.filter(pk=first.pk).requeue() == 1
    now = datetime.now(UTC)
    assert claim(now=now) == []
    complete(running)
    assert ids(claim(now=now)) == [first.pk]


def test_expired_lease_is_claimed_again():
    add_turn(new_user(), "one")
    (lost,) = claim()
    lease = timedelta(seconds=claiming.LEASE_SECONDS)
    assert claim(now=NOW + lease - timedelta(seconds=1)) == []
    (found,) = claim(now=NOW + lease)
    assert (found.pk, found.attempts, found.interruptions) == (lost.pk, 2, 1)


def test_task_that_kills_its_workers_finally_fails():
    add_turn(new_user(), "one")
    for hour in range(1 + claiming.MAX_INTERRUPTIONS):
        assert len(claim(now=NOW + timedelta(hours=hour))) == 1
    later = NOW + timedelta(days=1)
    assert claim(now=later) == []
    assert Task.objects.close_abandoned(now=later) >= 1
    assert states() == ["errored"]


def test_worker_without_lease_writes_nothing():
    add_turn(new_user(), "one")
    (lost,) = claim()
    (found,) = claim(now=LATER)
    with pytest.raises(LeaseLost):
        complete(lost)
    with pytest.raises(LeaseLost), ExtractionTask.read(lost).locked():
        pass
    lost.fail(ValueError(), is_final=True)
    assert states() == ["running"]
    complete(found, found=3, saved=2)
    row = Task.objects.get(pk=found.pk)
    assert (row.state, read_result(row)[:2]) == ("done", (3, 2))
    assert row.finished_at is not None


def test_failure_logs_no_content_and_stores_the_reply(owner, caplog):
    add_turn(owner, "my secret")
    (taken,) = claim()
    failure = ExtractionFailed("not JSON", "the \0 user's \ud800 secret")
    extraction_worker._record_failure(taken, failure)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    line = record.getMessage()
    assert str(taken.turn_id) in line
    assert pseudonym(owner) in line
    for text in ("secret", str(owner), owner.hex):
        assert text not in line
    row = Task.objects.get(pk=taken.pk)
    assert row.state == "errored"
    assert row.error.endswith("not JSON")
    assert read_result(row).reply == "the \ufffd user's \ufffd secret"


def test_huge_reply_is_truncated():
    result = extraction_tasks.failure_result("r" * 999_999)
    assert len(result) < extraction_tasks.MAX_REPLY_LENGTH + 20


def test_retries_wait_longer_than_other_tasks():
    add_turn(new_user(), "one")
    (taken,) = claim()
    before = datetime.now(UTC)
    taken.fail(TimeoutError())
    row = Task.objects.get(pk=taken.pk)
    assert (row.state, row.failures, row.round) == ("queued", 1, 0)
    assert before + timedelta(seconds=15) <= row.due_at
    assert row.due_at <= datetime.now(UTC) + timedelta(seconds=30)


def test_tasks_are_counted_by_state():
    for _ in range(5):
        add_turn(new_user(), "one")
    _running, done, skipped, failed = claim(4)
    complete(done)
    ExtractionTask.read(skipped).complete(skipped="memory is off")
    failed.fail(ValueError(), is_final=True)
    paused = add_turn(new_user(), "later")
    Task.objects.filter(pk=paused.pk).update(due_at=LATER)
    rows = Task.objects.extractions()
    assert extraction_tasks.count_by_state(rows, NOW) == {
        "due": 1,
        "waiting": 1,
        "running": 1,
        "done": 1,
        "skipped": 1,
        "failed": 1,
    }
    assert extraction_tasks.count_by_state(rows, LATER)["due"] == 3
    assert Task.objects.due_kinds([EXTRACTION], NOW) == [EXTRACTION]


def run_in_threads(count: int, work) -> None:
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        try:
            work()
        finally:
            connection.close()

    workers = [threading.Thread(target=run) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_parallel_workers_claim_different_tasks():
    jobs = {add_turn(new_user(), "one").pk for _ in range(12)}
    taken: list[object] = []

    def work() -> None:
        while found := claim(2):
            taken.extend(ids(found))

    run_in_threads(4, work)
    assert len(taken) == 12
    assert set(taken) == jobs


def test_parallel_workers_keep_a_users_order(owner):
    jobs = [add_turn(owner, str(number)) for number in range(8)]
    order, busy = [], threading.Lock()

    def work() -> None:
        while Task.objects.extractions().filter(state="queued").exists():
            for task in claim(2):
                assert busy.acquire(blocking=False), "two at once"
                order.append(task.pk)
                busy.release()
                complete(task)

    run_in_threads(3, work)
    assert order == ids(jobs)


def test_long_queue_of_one_user_does_not_hide_others(owner, monkeypatch):
    monkeypatch.setattr(claiming, "MAX_CHECKED", 3)
    jobs = [add_turn(owner, str(number)) for number in range(5)]
    Task.objects.filter(pk=jobs[0].pk).update(due_at=LATER)
    other, third = add_turn(new_user(), "hello"), add_turn(new_user(), "hello")
    Task.objects.filter(pk=third.pk).update(due_at=LATER)
    assert ids(claim()) == [other.pk]


def test_claim_reads_only_open_tasks(owner, monkeypatch):
    for number in range(3):
        add_turn(owner, str(number))
    monkeypatch.setattr(claiming, "MAX_CHECKED", 0)
    with CaptureQueriesContext(connection) as queries:
        assert len(claim(1)) == 1
    # The first of the oldest, of those due longest and of each user, perhaps from the
    # first user on, the claim.
    assert len(queries) in (4, 5)
    if connection.vendor == "sqlite":
        for query in queries.captured_queries[:-1]:
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
                plan = [row[-1] for row in cursor.fetchall()]
            reads = [line for line in plan if "tasks_task" in line or "next" in line]
            # By the index of open or running tasks, or by the id.
            used = (
                "tasks_task_open",
                "tasks_task_running",
                "tasks_task_due",
                "autoindex",
            )
            assert all(any(name in line for name in used) for line in reads), reads


def test_turn_adds_its_task_in_one_statement(owner):
    job = add_turn(owner, "hello")
    stored = extraction_tasks.TurnRange(owner, job.payload["thread"], job.turn_id, 0, 1)
    request = extraction_tasks.ExtractionRequest("assistant", "Asia/Tokyo")
    with CaptureQueriesContext(connection) as queries:
        extraction_tasks.enqueue(stored, request, NOON)
    assert len(queries) == 1
    added = Task.objects.extractions().filter(user_id=owner).exclude(pk=job.pk).get()
    assert added.payload["time_zone"] == "Asia/Tokyo"
    # It equals a task that the ORM adds.
    usual = Task(kind=EXTRACTION, max_failures=5)
    for name in ("key", "origin", "prompt", "priority", "round", "result", "worker"):
        assert getattr(added, name) == getattr(usual, name)


def test_last_time_zone_of_a_user_is_reused(owner):
    time_zones = []
    for name in ("Europe/Lisbon", "", "Asia/Tokyo"):
        change_payload(add_turn(owner, "I like tea", "Noted."), time_zone=name)
        (taken,) = claim()
        job = ExtractionTask.read(taken)
        with job.locked():
            job.complete()
        time_zones.append(Owner.objects.get(user_id=owner).time_zone)
    assert time_zones == ["Europe/Lisbon", "Europe/Lisbon", "Asia/Tokyo"]
