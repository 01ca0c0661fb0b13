"""How many tasks a process does at a time follows the file."""

import pytest

from tasks.models import Task
from tasks.queue import lease_recovery, lifecycle
from tasks.queue.lifecycle import TaskSpec
from tasks.worker import service
from tests.conftest import CONFIG
from tests.tasks.conftest import Working, wait_for, wait_until

pytestmark = pytest.mark.database


def test_worker_count_follows_the_file(server, configure):
    assert service.configured_slots() == 4
    configure(CONFIG + "\ntasks: {workers: 9}\n")
    assert service.configured_slots() == 9
    configure(CONFIG + "\ntasks: {workers: 9, enabled: false}\n")
    assert service.configured_slots() == 0


# From its very first look, which may be under way yet.
@pytest.mark.parametrize("working", [0], indirect=True)
def test_queued_task_waits_while_tasks_are_disabled(working: Working, fake, user_id):
    room, looks = 0, 0

    def slots() -> int:
        nonlocal looks
        looks += 1
        return room

    working._runner._slots = slots
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    for _ in range(2):  # The second look says that the first took nothing.
        before = looks
        working.kick()
        wait_until(lambda before=before: looks > before)
    task.refresh_from_db()
    assert (task.state, fake.requests) == ("queued", [])
    room = 1
    working.kick()
    assert working.closed(task).state == "done"


@pytest.mark.parametrize("working", [2], indirect=True)
def test_running_tasks_do_not_exceed_the_slots(working: Working, fake, user_id):
    for _ in range(3):
        fake.hang("headers")
    tasks = lifecycle.enqueue(
        [TaskSpec("agent", user_id, "assistant", "x") for _ in range(3)]
    )
    working.kick()
    wait_until(lambda: len(fake.requests) == 2)
    states = Task.objects.filter(user_id=user_id).values_list("state", flat=True)
    assert sorted(states) == ["queued", "running", "running"]
    fake.release()
    assert {working.closed(task).state for task in tasks} == {"done"}


def test_failed_startup_sweep_does_not_block_tasks(
    server, fake, user_id, monkeypatch, caplog
):
    def fail() -> None:
        raise PermissionError("not for you to see")

    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    working = service.WorkerService(users=[user_id])
    working.start()
    try:
        assert wait_for(task, lambda row: row.finished_at is not None).state == "done"
    finally:
        working.stop()
    assert "could not look for lost tasks" in caplog.text
