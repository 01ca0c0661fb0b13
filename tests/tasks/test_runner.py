"""The runner claims tasks, runs them and closes them."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from agents.config import AgentConfig
from core import messages
from core.ids import UserId, new_turn_id
from judges.runs import judge_queue
from judges.scoring import judge_context
from memory.models import StoredMessage
from tasks.models import Task, TaskQuerySet
from tasks.queue.task_spec import TaskSpec
from tasks.worker import executor
from telemetry.models import Turn
from testing.scripted_provider import FakeProvider
from testing.wires import ScriptedAnswer
from tests.judges.sample_judges import JUDGE_CONFIG, answer
from tests.tasks.conftest import RunnerHarness, wait_for, wait_until

pytestmark = pytest.mark.database


def test_task_runs_a_turn_like_a_request(
    task_runner: RunnerHarness, fake: FakeProvider, user_id: UserId
):
    fake.reply("All is well.")

    task = task_runner.run_task(TaskSpec("agent", user_id, "assistant", "How is it?"))

    assert (task.state, task.result, task.error) == ("done", "All is well.", "")
    messages_stored = StoredMessage.objects.filter(thread__user_id=user_id).order_by(
        "position"
    )
    assert [row.text for row in messages_stored] == ["How is it?", "All is well."]
    assert Turn.objects.get(pk=task.turn_id).user_id == user_id


def test_unknown_agent_error_names_the_agent(
    task_runner: RunnerHarness, user_id: UserId
):
    task = task_runner.run_task(TaskSpec("agent", user_id, "nobody", "How is it?"))

    assert task.state == "errored"
    assert "'nobody'" in task.error


def test_task_with_a_lost_lease_stores_nothing(
    task_runner: RunnerHarness, fake: FakeProvider, user_id: UserId
):
    fake.hang("headers")
    (task,) = Task.objects.enqueue(
        [TaskSpec("agent", user_id, "assistant", "How is it?")]
    )
    task_runner.check_queue()
    fake.wait(lambda: bool(fake.requests))

    # As if another worker had claimed it.
    Task.objects.filter(pk=task.pk).update(attempts=2)
    fake.release()
    wait_until(lambda: task_runner.is_idle)

    assert Task.objects.get(pk=task.pk).state == "running"
    assert not StoredMessage.objects.filter(thread__user_id=user_id).exists()


def is_judge_request(request: Any) -> bool:
    return request.body["model"] == "judge-test"


@pytest.mark.parametrize("task_runner", [1, 3], indirect=True)
def test_hanging_judges_do_not_block_tasks(
    task_runner: RunnerHarness,
    fake: FakeProvider,
    user_id: UserId,
    configure: Callable[[str], None],
    request: pytest.FixtureRequest,
):
    configure(JUDGE_CONFIG)
    fake.default = lambda received: (
        ScriptedAnswer(hang="headers")
        if is_judge_request(received)
        else ScriptedAnswer(["Paris."])
    )
    agent = AgentConfig(
        name="judged", provider="openai", model="m", judges=("quality",)
    )
    paris = judge_context.build_context(
        (), [messages.Message("user", "The capital?")], "Paris."
    )
    drafts = [
        judge_queue.sample_tasks(
            agent, turn_id=new_turn_id(), user_id=user_id, context=paris
        )
        for _ in range(4)
    ]
    Task.objects.enqueue([draft for each in drafts for draft in each])
    task_runner.check_queue()
    slots = request.node.callspec.params["task_runner"]
    limit = max(slots - 1, 1)
    fake.wait(lambda: sum(map(is_judge_request, fake.requests)) == limit)

    if slots > 1:
        done = task_runner.run_task(
            TaskSpec("agent", user_id, "judged", "The capital?")
        )
        assert (done.state, done.result) == ("done", "Paris.")
    assert sum(map(is_judge_request, fake.requests)) == limit
    fake.default = ScriptedAnswer([answer(accuracy=9, tone=7)])
    fake.release()
    rows = Task.objects.filter(user_id=user_id)
    wait_until(lambda: not rows.filter(finished_at=None).exists())
    assert set(rows.values_list("state", flat=True)) == {"done"}


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of a runner at its heartbeats, which are frequent."""
    calls: list[str] = []

    def record_calls(name: str) -> None:
        function = getattr(TaskQuerySet, name)

        def record(rows: TaskQuerySet, tasks: Collection[Task]) -> object:
            calls.append(name)
            return function(rows, tasks)

        monkeypatch.setattr(TaskQuerySet, name, record)

    record_calls("extend_leases")
    record_calls("stopped_ids")
    monkeypatch.setattr(executor, "HEARTBEAT_SECONDS", 0.005)
    return calls


def test_leases_are_extended_and_cancellation_is_seen_at_once(
    beats: list[str], task_runner: RunnerHarness, fake: FakeProvider, user_id: UserId
):
    fake.hang("headers")
    (task,) = Task.objects.enqueue(
        [TaskSpec("agent", user_id, "assistant", "How is it?")]
    )
    task_runner.check_queue()
    running = wait_for(task, lambda row: row.state == "running")
    extended = wait_for(task, lambda row: row.due_at > running.due_at)
    wait_until(lambda: beats.count("extend_leases") >= 3)
    first, second = [n for n, name in enumerate(beats) if name == "extend_leases"][:2]
    assert second - first == 1 + executor.HEARTBEATS_PER_LEASE
    assert (extended.state, extended.attempts) == ("running", 1)

    task.cancel()
    assert task_runner.wait_for_end(task).state == "cancelled"
