"""A worker's slots, and its start."""

from datetime import UTC, datetime, timedelta

import pytest

from tasks.models import Task
from tasks.queue import lease_recovery, publisher, task_kinds
from tasks.queue.task_spec import TaskSpec
from tasks.worker import executor, local_worker, slots
from tasks.worker.slots import Slots
from tests.conftest import CONFIG
from tests.tasks.conftest import RunnerHarness, wait_for, wait_until

pytestmark = pytest.mark.database


def test_worker_count_follows_the_file(server, configure):
    assert slots.configured_limit("tasks") == 4
    configure(CONFIG + "\ntasks: {workers: 9}\n")
    assert slots.configured_limit("tasks") == 9
    configure(CONFIG + "\ntasks: {workers: 9, enabled: false}\n")
    assert slots.configured_limit("tasks") == 0


@pytest.mark.parametrize("task_runner", [0], indirect=True)
def test_queued_task_waits_while_tasks_are_disabled(
    task_runner: RunnerHarness, fake, user_id, monkeypatch
):
    monkeypatch.setattr(executor, "HEARTBEAT_SECONDS", 0.01)
    (task,) = Task.objects.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    task_runner.check_queue()
    wait_until(lambda: task_runner.executor._slots.has_backlog)
    task.refresh_from_db()
    assert (task.state, fake.requests) == ("queued", [])
    # As after an edit of the YAML; nothing else publishes a permit.
    task_runner.slots = 1
    assert wait_for(task, lambda row: row.finished_at is not None).state == "done"


@pytest.mark.parametrize("task_runner", [2], indirect=True)
def test_running_tasks_do_not_exceed_the_slots(
    task_runner: RunnerHarness, fake, user_id
):
    for _ in range(3):
        fake.hang("headers")
    tasks = Task.objects.enqueue(
        [TaskSpec("agent", user_id, "assistant", "x") for _ in range(3)]
    )
    task_runner.check_queue()
    wait_until(lambda: len(fake.requests) == 2)
    states = Task.objects.filter(user_id=user_id).values_list("state", flat=True)
    assert sorted(states) == ["queued", "running", "running"]
    fake.release()
    assert {task_runner.wait_for_end(task).state for task in tasks} == {"done"}


def test_permit_over_the_limit_is_used_when_a_task_ends(
    task_runner: RunnerHarness, fake, user_id
):
    task_runner.slots = 1
    fake.hang("headers")
    tasks = [
        Task.objects.enqueue([TaskSpec("agent", user_id, "assistant", name)])[0]
        for name in ("first", "second")
    ]
    task_runner.check_queue()
    wait_until(lambda: len(fake.requests) == 1)
    wait_until(lambda: task_runner.executor._slots.has_backlog)
    fake.release()
    # Nothing else publishes a permit for the second.
    wait_for(tasks[1], lambda row: row.finished_at is not None)
    assert [task_runner.wait_for_end(task).state for task in tasks] == ["done"] * 2


def test_permit_on_its_way_uses_a_slot():
    kind = task_kinds.get("agent")
    two = Slots(lambda group: 2)
    two.set_backlog(kind, has_backlog=True)
    assert [two.take(kind) for _ in range(3)] == [True, True, False]
    assert not two.request(kind)
    two.give_back(kind)
    assert two.request_next() == ["agent"]
    assert (two.request(kind), two.request_next()) == (False, [])
    assert two.take(kind)
    two.give_back(kind)
    assert two.request_next() == ["agent"]
    # Another worker received it.
    two.forget_requests()
    assert two.request_next() == ["agent"]


def test_failed_recovery_at_the_start_does_not_block_tasks(
    server, fake, user_id, monkeypatch, caplog
):
    def fail() -> None:
        raise PermissionError("permission denied")

    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    (task,) = Task.objects.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    with local_worker.running_tasks(["agent"], users=[user_id]):
        assert wait_for(task, lambda row: row.finished_at is not None).state == "done"
    assert "could not recover tasks of dead workers" in caplog.text


def test_recovery_publishes_permits_for_due_tasks(server, user_id, monkeypatch):
    published: list[tuple[str, float]] = []
    monkeypatch.setattr(
        publisher, "notify", lambda kind, delay=0.0: published.append((kind, delay))
    )
    for delay in (3, 60):
        Task.objects.enqueue(
            [TaskSpec("agent", user_id, "assistant", "x", delay_seconds=delay)]
        )
    published.clear()
    Task.objects.filter(due_at__lte=datetime.now(UTC)).delete()
    lease_recovery.publish_permits()
    # Other tests may have left delayed tasks, too.
    delays = [delay for kind, delay in published if kind == "agent"]
    assert any(2 < delay <= 3 for delay in delays)
    assert max(delays) <= publisher.MAX_DELAY_SECONDS
    published.clear()
    lease_recovery.publish_permits(now=datetime.now(UTC) + timedelta(seconds=4))
    assert ("agent", 0.0) in published
    Task.objects.of_user(user_id).delete()
