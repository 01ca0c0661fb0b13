"""The worker service: its number of slots, and its start."""

import pytest

from tasks.models import Task
from tasks.queue import lease_recovery, lifecycle
from tasks.queue.lifecycle import TaskSpec
from tasks.worker import service
from tests.conftest import CONFIG
from tests.tasks.conftest import RunnerHarness, wait_for, wait_until

pytestmark = pytest.mark.database


def test_worker_count_follows_the_file(server, configure):
    assert service.configured_slots() == 4
    configure(CONFIG + "\ntasks: {workers: 9}\n")
    assert service.configured_slots() == 9
    configure(CONFIG + "\ntasks: {workers: 9, enabled: false}\n")
    assert service.configured_slots() == 0


# No slots from the first check on, which may still run.
@pytest.mark.parametrize("task_runner", [0], indirect=True)
def test_queued_task_waits_while_tasks_are_disabled(
    task_runner: RunnerHarness, fake, user_id
):
    slot_count, checks = 0, 0

    def slots() -> int:
        nonlocal checks
        checks += 1
        return slot_count

    task_runner._runner._slots = slots
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    for _ in range(2):  # The second check shows that the first claimed nothing.
        before = checks
        task_runner.check_queue()
        wait_until(lambda before=before: checks > before)
    task.refresh_from_db()
    assert (task.state, fake.requests) == ("queued", [])
    slot_count = 1
    task_runner.check_queue()
    assert task_runner.wait_for_end(task).state == "done"


@pytest.mark.parametrize("task_runner", [2], indirect=True)
def test_running_tasks_do_not_exceed_the_slots(
    task_runner: RunnerHarness, fake, user_id
):
    for _ in range(3):
        fake.hang("headers")
    tasks = lifecycle.enqueue(
        [TaskSpec("agent", user_id, "assistant", "x") for _ in range(3)]
    )
    task_runner.check_queue()
    wait_until(lambda: len(fake.requests) == 2)
    states = Task.objects.filter(user_id=user_id).values_list("state", flat=True)
    assert sorted(states) == ["queued", "running", "running"]
    fake.release()
    assert {task_runner.wait_for_end(task).state for task in tasks} == {"done"}


def test_failed_startup_sweep_does_not_block_tasks(
    server, fake, user_id, monkeypatch, caplog
):
    def fail() -> None:
        raise PermissionError("permission denied")

    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    worker = service.WorkerService(users=[user_id])
    worker.start()
    try:
        assert wait_for(task, lambda row: row.finished_at is not None).state == "done"
    finally:
        worker.stop()
    assert "could not recover tasks of dead workers" in caplog.text
