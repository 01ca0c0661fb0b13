"""Turns of tasks: retries, cancellation, erasure and charges."""

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
from tasks.queue.task_spec import TaskSpec
from tasks.worker import executor
from telemetry.models import Turn
from testing.scripted_provider import FakeProvider
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.tasks.conftest import TIMEOUT_SECONDS, RunnerHarness, wait_for, wait_until

pytestmark = pytest.mark.database

PRICES = "\nprices: {openai: {gpt-test: {input: 100000, output: 100000}}}\n"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr("tasks.queue.task_kinds.MIN_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(executor, "HEARTBEAT_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def first_event(monkeypatch) -> threading.Event:
    """Set once a turn has received an event of a reply."""
    first_event, add = threading.Event(), Reply.add

    def note(reply: Reply, event: Event) -> None:
        add(reply, event)
        if isinstance(event, TextDelta):
            first_event.set()

    monkeypatch.setattr(Reply, "add", note)
    return first_event


def draft(user_id: UserId, **fields) -> TaskSpec:
    return TaskSpec("agent", user_id, "assistant", "How is it?", **fields)


def messages_of(user_id: UserId) -> list[tuple[str, str]]:
    rows = StoredMessage.objects.filter(thread__user_id=user_id).order_by("position")
    return [(row.text, row.finish_reason) for row in rows]


@pytest.fixture
def running_task(
    task_runner: RunnerHarness,
    fake: FakeProvider,
    user_id: UserId,
    first_event: threading.Event,
) -> Task:
    """A running task whose provider hangs after the first words."""
    fake.hang("mid_stream", "All is", " well.")
    (task,) = Task.objects.enqueue([draft(user_id)])
    task_runner.check_queue()
    assert first_event.wait(TIMEOUT_SECONDS)
    task.refresh_from_db()
    return task


# Retries.


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
    assert messages_of(user_id) == [("How is it?", ""), ("All is well.", "stop")]
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
    assert messages_of(user_id) == []
    assert Turn.objects.get(user_id=user_id).outcome == "error"


def test_failed_task_can_be_requeued(task_runner, fake, user_id):
    fake.fail(500)
    task = task_runner.run_task(draft(user_id))
    assert task.state == "errored"
    assert Task.objects.filter(pk=task.pk).requeue() == 1
    task_runner.check_queue()
    task = wait_for(task, lambda row: row.state == "done")
    assert (task.error, task.attempts, task.failures) == ("", 2, 0)
    assert Task.objects.filter(pk=task.pk).requeue() == 0


# Cancellation and timeouts.


def test_cancelled_running_task_stores_its_partial_reply(
    task_runner, running_task, fake: FakeProvider, user_id
):
    assert running_task.cancel()
    running_task.refresh_from_db()
    assert running_task.state == "running"
    task = task_runner.wait_for_end(running_task)
    assert (task.state, task.result) == ("cancelled", "")
    fake.wait(lambda: fake.requests[0].aborted)
    assert Turn.objects.get(user_id=user_id).outcome == "cancelled"
    assert messages_of(user_id) == [("How is it?", ""), ("All is", "cancelled")]


def test_queued_task_is_cancelled_at_once(task_runner, fake, user_id):
    (task,) = Task.objects.enqueue([draft(user_id, delay_seconds=60)])
    assert task.cancel()
    assert not task.cancel()
    task.refresh_from_db()
    assert (task.state, task.finished_at is not None) == ("cancelled", True)


def test_slow_task_is_ended_by_the_timeout(configure, task_runner, fake, user_id):
    configure(CONFIG + "\ntasks: {timeout_seconds: 0.05}\n")
    fake.hang("headers")
    task = task_runner.run_task(draft(user_id, max_failures=3))
    assert (task.state, task.attempts) == ("errored", 1)
    assert public_text(task.error) == "timed out after 0.05 seconds"
    # The timeout may have come before the call.
    fake.wait(lambda: all(request.aborted for request in fake.requests))


def test_stopping_worker_requeues_running_tasks(task_runner, running_task, user_id):
    sync_bridge.run_sync(
        task_runner.executor.stop(0.01), timeout_seconds=TIMEOUT_SECONDS
    )
    running_task.refresh_from_db()
    assert (running_task.state, running_task.interruptions) == ("queued", 0)
    assert task_runner.is_idle
    assert messages_of(user_id) == []


# Erased users and revoked tokens.


def test_erasure_during_a_task_leaves_nothing(task_runner, running_task, fake, user_id):
    erasure.erase_user(user_id)
    wait_until(lambda: task_runner.is_idle)
    fake.wait(lambda: fake.requests[0].aborted)
    assert not Task.objects.filter(pk=running_task.pk).exists()
    assert not Thread.objects.filter(user_id=user_id).exists()
    assert not Turn.objects.filter(user_id=user_id).exists()


def test_reply_after_erasure_is_not_stored(task_runner, fake, user_id):
    fake.hang("headers")
    Task.objects.enqueue([draft(user_id)])
    task_runner.check_queue()
    fake.wait(lambda: bool(fake.requests))
    erasure.erase_user(user_id)
    fake.release()
    wait_until(lambda: task_runner.is_idle)
    assert not Thread.objects.filter(user_id=user_id).exists()
    assert not Turn.objects.filter(user_id=user_id).exists()


def test_task_of_a_revoked_token_is_refused(task_runner, fake, user, user_id):
    row, _ = api_tokens.create_token("ci", user, by=ADA)
    # Before it is queued, because a worker may claim it at once.
    api_tokens.revoke(str(row.pk), by=ADA)
    (task,) = Task.objects.enqueue([draft(user_id, token_id=row.pk)])
    task_runner.check_queue()
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
    """Delays the heartbeat that would cancel the turn."""
    monkeypatch.setattr(executor, "HEARTBEAT_SECONDS", 600)


@pytest.mark.usefixtures("_replies_come_first")
def test_unstorable_reply_is_charged(configure, task_runner, fake, user, user_id):
    configure(CONFIG + PRICES)
    row, _ = api_tokens.create_token("ci", user, by=ADA)
    fake.hang("headers")
    Task.objects.enqueue([draft(user_id, token_id=row.pk)])
    task_runner.check_queue()
    fake.wait(lambda: bool(fake.requests))
    erasure.erase_user(user_id)
    fake.release()
    wait_until(lambda: task_runner.is_idle)
    meters = UsageCounter.objects.filter(subject__contains=row.pk.hex)
    assert {meter.micro_usd for meter in meters} == {1_000_000}
    assert {meter.turns_reserved_now for meter in meters} == {0}
