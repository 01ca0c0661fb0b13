"""The job queue: no job is lost, claimed twice or out of order."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.extraction import job_queue
from memory.models import ExtractionJob, Owner
from tests.memory.extraction_harness import NOON, add_turn, new_user

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]

LATER = NOON + timedelta(hours=1)


@pytest.fixture
def alone(database):
    """Remove the jobs of other tests; a claim takes any job."""
    ExtractionJob.objects.all().delete()
    yield
    ExtractionJob.objects.all().delete()


@pytest.fixture
def owner():
    return new_user()


def claim(limit=10, *, now=NOON):
    return job_queue.claim(limit, 60, now=now)


def states():
    return list(ExtractionJob.objects.order_by("pk").values_list("state", flat=True))


def test_claim_returns_oldest_jobs_up_to_the_limit():
    jobs = [add_turn(new_user(), "hello") for _ in range(4)]
    assert [row.pk for row in claim(3)] == [row.pk for row in jobs[:3]]
    assert [row.pk for row in claim(3)] == [jobs[3].pk]
    assert claim() == []


def test_retried_job_queues_behind_waiting_jobs():
    # Otherwise a model that hangs would block the workers for all users.
    slow, fresh = add_turn(new_user(), "slow"), add_turn(new_user(), "fresh")
    ExtractionJob.objects.filter(pk=slow.pk).update(
        due_at=NOON + timedelta(seconds=1), attempts=1
    )
    now = NOON + timedelta(seconds=2)
    assert [row.pk for row in claim(1, now=now)] == [fresh.pk]
    assert [row.pk for row in claim(1, now=now)] == [slow.pk]


def test_claim_returns_the_stored_job_fields(owner):
    add_turn(owner, "hello", "hi")
    (taken,) = claim()
    assert (taken.state, taken.attempts) == ("running", 1)
    assert (taken.first_position, taken.end_position) == (0, 2)
    assert taken.user_id == owner


def test_claim_runs_one_job_per_user_in_order(owner):
    first, second = add_turn(owner, "one"), add_turn(owner, "two")
    assert [row.pk for row in claim()] == [first.pk]
    assert claim() == []
    job_queue.complete(ExtractionJob.objects.get(pk=first.pk))
    assert [row.pk for row in claim()] == [second.pk]


def test_one_user_does_not_block_another(owner):
    first = add_turn(owner, "one")
    add_turn(owner, "two")
    other = add_turn(new_user(), "three")
    assert [row.pk for row in claim()] == [first.pk, other.pk]


def test_paused_job_blocks_the_users_later_jobs(owner):
    first, second = add_turn(owner, "one"), add_turn(owner, "two")
    ExtractionJob.objects.filter(pk=first.pk).update(due_at=LATER)
    assert claim() == []
    assert [row.pk for row in claim(now=LATER)] == [first.pk]
    assert second.pk not in {row.pk for row in claim(now=LATER)}


def test_replayed_older_job_waits_for_the_running_one(owner):
    first, _second = add_turn(owner, "one"), add_turn(owner, "two")
    (taken,) = claim()
    job_queue.fail(taken, "broken")
    now = datetime.now(UTC)
    (running,) = claim(now=now)
    job_queue.requeue([first.pk])
    now = datetime.now(UTC)
    assert claim(now=now) == []
    job_queue.complete(running)
    assert [row.pk for row in claim(now=now)] == [first.pk]


def test_expired_lease_is_claimed_again():
    add_turn(new_user(), "one")
    (lost,) = claim()
    assert claim(now=NOON + timedelta(seconds=59)) == []
    (found,) = claim(now=NOON + timedelta(seconds=60))
    assert (found.pk, found.attempts) == (lost.pk, 2)


@pytest.mark.parametrize(
    "finish",
    [
        lambda row: job_queue.complete(row, found=1, saved=1),
        lambda row: job_queue.fail(row, "broken"),
        lambda row: job_queue.retry(row, "busy", seconds=1),
    ],
    ids=["done", "failed", "retry"],
)
def test_worker_without_lease_cannot_complete_the_job(finish, caplog):
    add_turn(new_user(), "one")
    (lost,) = claim()
    (found,) = claim(now=LATER)
    assert finish(lost) is False
    assert states() == ["running"]
    assert caplog.records == []
    assert finish(found) is True


def test_erased_job_cannot_be_completed():
    job = add_turn(new_user(), "one")
    (taken,) = claim()
    ExtractionJob.objects.filter(pk=job.pk).delete()
    assert job_queue.complete(taken) is False
    assert job_queue.fail(taken, "late") is False


def test_completed_job_stores_its_counts():
    add_turn(new_user(), "one")
    (taken,) = claim()
    assert job_queue.complete(taken, found=3, saved=2)
    row = ExtractionJob.objects.get()
    assert (row.state, row.facts_found, row.facts_saved) == ("done", 3, 2)
    assert row.finished_at is not None


def test_failure_logs_no_content_and_stores_the_reply(owner, caplog):
    add_turn(owner, "my secret")
    (taken,) = claim()
    job_queue.fail(taken, "not JSON", reply="the \0 user's \ud800 secret")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    line = record.getMessage()
    assert str(taken.turn_id) in line
    assert job_queue.pseudonym(owner) in line
    assert "secret" not in line
    assert str(owner) not in line
    assert owner.hex not in line
    row = ExtractionJob.objects.get()
    assert (row.state, row.error) == ("failed", "not JSON")
    assert row.reply == "the \ufffd user's \ufffd secret"


def test_huge_reply_is_truncated():
    add_turn(new_user(), "one")
    (taken,) = claim()
    job_queue.fail(taken, "e" * 99_999, reply="r" * 999_999)
    row = ExtractionJob.objects.get()
    assert len(row.reply) == job_queue.MAX_REPLY_LENGTH
    assert len(row.error) == job_queue.MAX_ERROR_LENGTH


def test_retried_job_waits_until_due():
    add_turn(new_user(), "one")
    (taken,) = claim()
    before = datetime.now(UTC)
    job_queue.retry(taken, "busy", seconds=100)
    row = ExtractionJob.objects.get()
    assert (row.state, row.error, row.attempts) == ("queued", "busy", 1)
    assert row.due_at >= before + timedelta(seconds=100)
    assert claim(now=before) == []
    assert len(claim(now=before + timedelta(seconds=200))) == 1


def test_backoff_grows_and_respects_the_provider():
    for attempts, (minimum, maximum) in enumerate(
        [(15, 30), (60, 120), (240, 480), (300, 600)], start=1
    ):
        seconds = [job_queue.backoff_seconds(attempts) for _ in range(20)]
        assert minimum <= min(seconds) <= max(seconds) <= maximum
        assert len(set(seconds)) > 1
    assert job_queue.backoff_seconds(1, 900) == 900


def test_failed_jobs_can_be_replayed_by_id_or_all(owner):
    jobs = [add_turn(new_user(), "one") for _ in range(3)] + [add_turn(owner, "mine")]
    for taken in claim():
        job_queue.fail(taken, "broken")
    assert job_queue.requeue([jobs[0].pk]) == 1
    assert job_queue.requeue([jobs[0].pk]) == 0
    assert job_queue.requeue(user_id=owner) == 1
    assert states() == ["queued", "failed", "failed", "queued"]
    assert job_queue.requeue() == 2
    assert set(
        ExtractionJob.objects.values_list("state", "attempts", "finished_at")
    ) == {("queued", 0, None)}
    assert len(claim(now=datetime.now(UTC))) == 4


def test_job_that_kills_its_workers_finally_fails(owner):
    add_turn(owner, "one")
    now = NOON
    for _ in range(job_queue.MAX_ATTEMPTS):
        assert job_queue.close_abandoned(now) == 0
        assert len(claim(now=now)) == 1
        now += timedelta(minutes=2)
    assert claim(now=now) == []
    assert job_queue.close_abandoned(now) == 1
    assert states() == ["failed"]


def test_queue_counts_jobs_by_state():
    for _ in range(6):
        add_turn(new_user(), "one")
    running, done, skipped, failed = claim(4)
    assert running.state == "running"
    job_queue.complete(done)
    job_queue.complete(skipped, error="memory is off")
    job_queue.fail(failed, "broken")
    ExtractionJob.objects.filter(state="queued").latest("pk").delete()
    paused = add_turn(new_user(), "later")
    ExtractionJob.objects.filter(pk=paused.pk).update(due_at=LATER)
    assert job_queue.count_by_state(NOON) == {
        "due": 1,
        "waiting": 1,
        "running": 1,
        "done": 1,
        "skipped": 1,
        "failed": 1,
    }
    assert job_queue.has_due_job(NOON)
    assert job_queue.count_by_state(LATER)["due"] == 3


def test_parallel_workers_claim_different_jobs():
    jobs = {add_turn(new_user(), "one").pk for _ in range(12)}
    barrier, taken = threading.Barrier(4), []

    def work() -> None:
        barrier.wait()
        try:
            while found := claim(2):
                taken.extend(row.pk for row in found)
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(taken) == 12
    assert set(taken) == jobs


def test_parallel_workers_keep_a_users_order(owner):
    for number in range(8):
        add_turn(owner, str(number))
    barrier, order, busy = threading.Barrier(3), [], threading.Lock()

    def work() -> None:
        barrier.wait()
        try:
            while ExtractionJob.objects.filter(state="queued").exists():
                for row in claim(2):
                    assert busy.acquire(blocking=False), "two at once"
                    order.append(row.pk)
                    busy.release()
                    job_queue.complete(row)
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert order == sorted(order)
    assert len(order) == 8


def test_long_queue_of_one_user_does_not_hide_others(owner, monkeypatch):
    monkeypatch.setattr(job_queue, "MAX_CHECKED", 3)
    jobs = [add_turn(owner, str(number)) for number in range(5)]
    ExtractionJob.objects.filter(pk=jobs[0].pk).update(due_at=LATER)
    other = add_turn(new_user(), "hello")
    assert [row.pk for row in claim()] == [other.pk]


def test_claim_reads_only_open_jobs(owner):
    for number in range(3):
        add_turn(owner, str(number))
    with CaptureQueriesContext(connection) as queries:
        claim()
    # Find, claim, read.
    assert len(queries) == 3
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + queries[0]["sql"])
            plan = "\n".join(str(row) for row in cursor.fetchall())
        assert (
            "SCAN memory_extractionjob USING INDEX memory_extractionjob_due" in plan
        ), plan
        assert plan.count("SCAN memory_extractionjob") == 1, plan


def test_last_time_zone_of_a_user_is_reused(alone, owner):
    time_zones = []
    for name in ("Europe/Lisbon", "", "Asia/Tokyo"):
        job = add_turn(owner, "I like tea", "Noted.")
        ExtractionJob.objects.filter(pk=job.pk).update(time_zone=name)
        (taken,) = job_queue.claim(1, 300)
        with job_queue.lock_leased(taken):
            job_queue.complete(taken)
        time_zones.append(Owner.objects.get(user_id=owner).time_zone)
    assert time_zones == ["Europe/Lisbon", "Europe/Lisbon", "Asia/Tokyo"]
