"""Tasks are taken, done and closed."""

import pytest

from core.ids import UserId
from memory.models import Message
from providers.fake import FakeProvider
from tasks import queue
from tasks.models import Task
from tasks.queue import Draft
from telemetry.models import Turn
from tests.tasks.conftest import Working, wait_until

pytestmark = pytest.mark.database


def test_a_task_takes_a_turn_like_a_request(
    working: Working, fake: FakeProvider, user_id: UserId
):
    fake.reply("All is well.")

    task = working.do(Draft("agent", user_id, "assistant", "How is it?"))

    assert (task.state, task.result, task.error) == ("done", "All is well.", "")
    said = Message.objects.filter(thread__user_id=user_id).order_by("position")
    assert [row.text for row in said] == ["How is it?", "All is well."]
    assert Turn.objects.get(pk=task.turn_id).user_id == user_id


def test_an_unknown_agent_is_an_error_that_names_it(working: Working, user_id: UserId):
    task = working.do(Draft("agent", user_id, "nobody", "How is it?"))

    assert task.state == "errored"
    assert "'nobody'" in task.error


def test_a_task_whose_lease_was_lost_stores_nothing(
    working: Working, fake: FakeProvider, user_id: UserId
):
    fake.hang("headers")
    (task,) = queue.add([Draft("agent", user_id, "assistant", "How is it?")])
    working.kick()
    fake.wait(lambda: bool(fake.requests))

    # As if another worker had taken it.
    Task.objects.filter(pk=task.pk).update(attempts=2)
    fake.release()
    wait_until(lambda: working.is_idle)

    assert Task.objects.get(pk=task.pk).state == "running"
    assert not Message.objects.filter(thread__user_id=user_id).exists()
