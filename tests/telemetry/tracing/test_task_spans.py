"""The spans of background tasks, and their links to what created them."""

import pytest

from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from tests.conftest import CONFIG
from tests.gateway.calls import ask
from tests.judges.judge_tasks import wait_for_task
from tests.judges.sample_judges import JUDGE_CONFIG
from tests.telemetry.tracing.collector import ReceivedSpan

pytestmark = pytest.mark.database


def link_to(span: ReceivedSpan) -> list[str]:
    return [f"{span.trace_id}-{span.span_id}"]


def test_dispatched_task_is_linked_to_the_tool_call(
    trace, client, collector, fake, user, task_runner
):
    trace(CONFIG + "\ntasks: {}\n")
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Find out."})
    ask(client, user, "Look into it.")
    task_runner.check_queue()
    [task] = collector.wait_for("task")
    [tool] = collector.wait_for("tool_call")
    cause, turn = sorted(collector.wait_for("turn", 2), key=lambda span: span.start)
    assert (task.kind, task.parent_id) == ("consumer", "")
    assert task.trace_id != tool.trace_id
    assert task.links == turn.links == link_to(tool)
    assert (turn.parent_id, turn.trace_id) == (task.span_id, task.trace_id)
    assert (cause.links, turn.attributes["origin"]) == ([], "task")
    assert (
        task.attributes
        | {
            "kind": "agent",
            "agent": "tuned",
            "attempt": 1,
            "outcome": "ok",
        }
        == task.attributes
    )


def test_judging_is_linked_to_its_turn(
    trace, client, collector, user, user_id, worker, judge
):
    trace(JUDGE_CONFIG)
    ask(client, user, "The capital?", agent="judged")
    wait_for_task(worker, user_id)
    [turn], [task] = collector.wait_for("turn"), collector.wait_for("task")
    assert task.links == link_to(turn)
    [call] = [
        c for c in collector.wait_for("llm_call", 2) if c.parent_id != turn.span_id
    ]
    assert (call.parent_id, call.trace_id) == (task.span_id, task.trace_id)
    assert call.attributes["gen_ai.request.model"] == "judge-test"
    assert call.attributes["gen_ai.usage.input_tokens"] > 0


def test_judge_that_stores_its_failure_has_the_error(
    trace, client, collector, user, user_id, worker, judge
):
    trace(JUDGE_CONFIG)
    judge += ["No JSON.", "No JSON."]
    ask(client, user, "The capital?", agent="judged")
    wait_for_task(worker, user_id)
    [task] = collector.wait_for("task")
    assert task.is_error
    assert task.attributes["outcome"] == "error"
    assert task.attributes["error.type"]


def test_failed_task_has_the_error(trace, collector, fake, task_runner, user_id):
    trace()
    fake.fail(401)
    task_runner.run_task(TaskSpec("agent", user_id, "assistant", "How is it?"))
    [task] = collector.wait_for("task")
    assert task.is_error
    assert task.attributes["outcome"] == "error"
    assert task.attributes["error.type"]
    assert (task.links, task.error) == ([], "")


def test_extraction_has_the_context_of_its_turn(
    trace, client, collector, user, user_id
):
    agent = "{name: scout, provider: openai, model: gpt-test, memory_tools: true}"
    trace(f"{CONFIG}  - {agent}\n")
    ask(client, user, "I live in Lisbon.", agent="scout")
    [turn] = collector.wait_for("turn")
    [row] = Task.objects.filter(user_id=user_id, kind="extraction")
    assert row.traceparent == f"00-{turn.trace_id}-{turn.span_id}-01"


def test_task_follows_the_sampling_of_its_cause(
    trace, client, collector, user, fake, task_runner, user_id
):
    trace(CONFIG + "\ntasks: {}\n", sample_ratio=0)
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Find out."})
    ask(client, user, "Look into it.")
    [row] = Task.objects.without_extractions().filter(user_id=user_id)
    trace(CONFIG + "\ntasks: {}\n", sample_ratio=1)
    task_runner.check_queue()
    task_runner.wait_for_end(row)
    ask(client, user, "hi")
    assert [span.attributes["origin"] for span in collector.wait_for("turn")] == [
        "chat"
    ]


def test_tasks_without_traces_have_no_context(client, user, user_id):
    ask(client, user, "I live in Lisbon.")
    assert {row.traceparent for row in Task.objects.filter(user_id=user_id)} <= {""}
