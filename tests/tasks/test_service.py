"""How many tasks a process does at a time follows the file."""

import pytest

from tasks import queue, service
from tasks.models import Task
from tasks.queue import Draft
from tests.conftest import CONFIG
from tests.tasks.conftest import Working, wait_until

pytestmark = pytest.mark.database


def test_an_edit_says_how_many_are_done_at_a_time(server, configure):
    assert service.slots() == 4
    configure(CONFIG + "\ntasks: {workers: 9}\n")
    assert service.slots() == 9
    configure(CONFIG + "\ntasks: {workers: 9, enabled: false}\n")
    assert service.slots() == 0


def test_what_is_queued_waits_while_it_is_off(working: Working, fake, user_id):
    room = 0
    working._runner._slots = lambda: room
    (task,) = queue.add([Draft("agent", user_id, "assistant", "x")])
    working.kick()
    room = 1
    working.kick()
    assert working.closed(task).state == "done"


def test_no_more_run_than_there_is_room_for(working: Working, fake, user_id):
    working._runner._slots = lambda: 2
    for _ in range(3):
        fake.hang("headers")
    tasks = queue.add([Draft("agent", user_id, "assistant", "x") for _ in range(3)])
    working.kick()
    wait_until(lambda: len(fake.requests) == 2)
    states = Task.objects.filter(user_id=user_id).values_list("state", flat=True)
    assert sorted(states) == ["queued", "running", "running"]
    fake.release()
    assert {working.closed(task).state for task in tasks} == {"done"}
