"""A task's turn: tried again, ended early, and never told twice."""

import threading
from datetime import UTC, datetime

import pytest

from access.models import UsageCounter
from access.tokens import api_tokens
from access.users import identity
from core.errors import public_text
from core.events import Event, TextDelta
from core.ids import UserId
from core.reply import Reply
from memory.models import StoredMessage, Thread
from memory.user_data import erasure
from providers import sync_bridge
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import TaskSpec
from tasks.worker import runner
from telemetry.models import Turn
from testing.scripted_provider import FakeProvider
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.tasks.conftest import TIMEOUT_SECONDS, RunnerHarness, wait_for, wait_until

pytestmark = pytest.mark.database

PRICES = "\nprices: {openai: {gpt-test: {input: 100000, output: 100000}}}\n"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(lifecycle, "MIN_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(runner, "HEARTBEAT_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def heard(monkeypatch) -> threading.Event:
    """Set once a turn has heard something of a reply."""
    heard, add = threading.Event(), Reply.add

    def note(reply: Reply, event: Event) -> None:
        add(reply, event)
        if isinstance(event, TextDelta):
            heard.set()

    monkeypatch.setattr(Reply, "add", note)
    return heard


def draft(user_id: UserId, **fields) -> TaskSpec:
    return TaskSpec("agent", user_id, "assistant", "How is it?", **fields)


def said(user_id: UserId) -> list[tuple[str, str]]:
    rows = StoredMessage.objects.filter(thread__user_id=user_id).order_by("position")
    return [(row.text, row.finish_reason) for row in rows]


@pytest.fixture
def speaking(
    task_runner: RunnerHarness,
    fake: FakeProvider,
    user_id: UserId,
    heard: threading.Event,
) -> Task:
    """A task whose agent has said something, and says no more."""
    fake.hang("mid_stream", "All is", " well.")
    (task,) = lifecycle.enqueue([draft(user_id)])
    task_runner.kick()
    assert heard.wait(TIMEOUT_SECONDS)
    task.refresh_from_db()
    return task


# Tried again.


def test_failed_task_is_retried_and_replied_once(
    configure, task_runner: RunnerHarness, fake: FakeProvider, user_id
):
    configure(CONFIG + PRICES)
    fake.fail(500)
    fake.cut("mid_stream", "All", " is")
    fake.reply("All is well.")
    task = task_runner.run_task(draft(user_id, max_failures=3))
    assert (task.state, task.result, task.error) == ("done", "All is well.", "")
    assert (task.attempts, task.failures) == (3, 2)
    assert said(user_id) == [("How is it?", ""), ("All is well.", "stop")]
    turns = Turn.objects.filter(user_id=user_id).order_by("started_at")
    assert [turn.outcome for turn in turns] == ["error", "error", "ok"]


def test_permanent_error_is_not_retried(task_runner, fake, user_id):
    fake.fail(400, "no such thing")
    task = task_runner.run_task(draft(user_id, max_failures=3))
    assert (task.state, task.attempts) == ("errored", 1)
    assert "no such thing" in task.error


def test_error_message_is_redacted(task_runner, fake, user_id):
    keys = "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs or q7Vd2mXw9Lr4TzK8bNf3HcYs"
    fake.fail(400, f"not with {keys}")
    task = task_runner.run_task(draft(user_id))
    assert "not with [redacted] or [redacted]" in task.error


def test_final_error_stores_no_message(task_runner, fake, user_id):
    fake.cut("mid_stream", "All", " is")
    task = task_runner.run_task(draft(user_id))
    assert (task.state, task.attempts) == ("errored", 1)
    assert said(user_id) == []
    assert Turn.objects.get(user_id=user_id).outcome == "error"


def test_failed_task_can_be_requeued(task_runner, fake, user_id):
    fake.fail(500)
    task = task_runner.run_task(draft(user_id))
    assert task.state == "errored"
    assert lifecycle.requeue([task.pk]) == 1
    task_runner.kick()
    task = wait_for(task, lambda row: row.state == "done")
    assert (task.error, task.attempts, task.failures) == ("", 2, 0)
    assert lifecycle.requeue([task.pk]) == 0


# Ended early.


def test_cancelled_running_task_stores_its_partial_reply(
    task_runner, speaking, fake: FakeProvider, user_id
):
    assert lifecycle.cancel(speaking.pk).state == "running"
    task = task_runner.wait_for_end(speaking)
    assert (task.state, task.result) == ("cancelled", "")
    fake.wait(lambda: fake.requests[0].aborted)
    assert Turn.objects.get(user_id=user_id).outcome == "cancelled"
    assert said(user_id) == [("How is it?", ""), ("All is", "cancelled")]


def test_queued_task_is_cancelled_at_once(task_runner, fake, user_id):
    (task,) = lifecycle.enqueue([draft(user_id, delay_seconds=60)])
    assert lifecycle.cancel(task.pk).state == "cancelled"
    assert lifecycle.cancel(task.pk).finished_at is not None


def test_slow_task_is_ended_by_the_timeout(configure, task_runner, fake, user_id):
    configure(CONFIG + "\ntasks: {timeout_seconds: 0.05}\n")
    fake.hang("headers")
    task = task_runner.run_task(draft(user_id, max_failures=3))
    assert (task.state, task.attempts) == ("errored", 1)
    assert public_text(task.error) == "timed out after 0.05 seconds"
    # It may have been too late for it to ask anything.
    fake.wait(lambda: all(request.aborted for request in fake.requests))


def test_stopping_worker_requeues_running_tasks(task_runner, speaking, user_id):
    sync_bridge.run_sync(
        task_runner._runner.stop(0.01), timeout_seconds=TIMEOUT_SECONDS
    )
    speaking.refresh_from_db()
    assert (speaking.state, speaking.interruptions) == ("queued", 0)
    assert task_runner.is_idle
    assert said(user_id) == []


# Nobody's any more.


def test_erasure_during_a_task_leaves_nothing(task_runner, speaking, fake, user_id):
    erasure.erase_user(user_id)
    wait_until(lambda: task_runner.is_idle)
    fake.wait(lambda: fake.requests[0].aborted)
    assert not Task.objects.filter(pk=speaking.pk).exists()
    assert not Thread.objects.filter(user_id=user_id).exists()
    assert not Turn.objects.filter(user_id=user_id).exists()


def test_reply_after_erasure_is_not_stored(task_runner, fake, user_id):
    fake.hang("headers")
    lifecycle.enqueue([draft(user_id)])
    task_runner.kick()
    fake.wait(lambda: bool(fake.requests))
    erasure.erase_user(user_id)
    fake.release()
    wait_until(lambda: task_runner.is_idle)
    assert not Thread.objects.filter(user_id=user_id).exists()
    assert not Turn.objects.filter(user_id=user_id).exists()


def test_task_of_a_revoked_token_is_refused(task_runner, fake, user, user_id):
    row, _ = api_tokens.create_token("ci", user, by=ADA)
    # Before it is queued: a worker may take it at once.
    api_tokens.revoke(str(row.pk), by=ADA)
    (task,) = lifecycle.enqueue([draft(user_id, token_id=row.pk)])
    task_runner.kick()
    task = task_runner.wait_for_end(task)
    assert task.state == "errored"
    assert "revoked" in task.error
    assert fake.requests == []


def test_task_is_charged_to_its_token(configure, task_runner, fake, user, user_id):
    configure(CONFIG + PRICES)
    row, _ = api_tokens.create_token("ci", user, agents=["assistant"], by=ADA)
    assert task_runner.run_task(draft(user_id, token_id=row.pk)).state == "done"
    assert Turn.objects.get(user_id=user_id).token_id == row.pk
    assert identity.derive_user_id(user) == user_id
    other = task_runner.run_task(
        TaskSpec("agent", user_id, "tuned", "x", token_id=row.pk)
    )
    assert "The model 'tuned' does not exist" in other.error
    assert datetime.now(UTC) > other.finished_at


@pytest.fixture
def _replies_come_first(monkeypatch):
    """A heartbeat that would break off what nobody may store comes too late."""
    monkeypatch.setattr(runner, "HEARTBEAT_SECONDS", 600)


@pytest.mark.usefixtures("_replies_come_first")
def test_unstorable_reply_is_charged(configure, task_runner, fake, user, user_id):
    configure(CONFIG + PRICES)
    row, _ = api_tokens.create_token("ci", user, by=ADA)
    fake.hang("headers")
    lifecycle.enqueue([draft(user_id, token_id=row.pk)])
    task_runner.kick()
    fake.wait(lambda: bool(fake.requests))
    erasure.erase_user(user_id)
    fake.release()
    wait_until(lambda: task_runner.is_idle)
    meters = UsageCounter.objects.filter(subject__contains=row.pk.hex)
    assert {meter.micro_usd for meter in meters} == {1_000_000}
    assert {meter.turns_reserved_now for meter in meters} == {0}
