"""Verdicts on runs: results compared with the expectations."""

from datetime import UTC, datetime, timedelta

import pytest

from judges.models import Score
from judges.runs import judge_queue
from smoke.config import Expectations
from smoke.evaluation import expectations, tool_call_log
from smoke.evaluation.expectations import RunResult, ScoreMean
from smoke.execution import dialogue_storage
from smoke.models import SmokeRun
from smoke.models.runs import SCORES_SECONDS
from smoke.reports import terminal
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from testing.wires import ScriptedAnswer
from tests.judges.sample_judges import answer
from tests.smoke.conftest import RunWorker, launch_queued
from tests.smoke.scripted_models import ScriptedModels, with_test
from tests.tasks.conftest import wait_until

database = pytest.mark.database


def run_result(**fields: object) -> RunResult:
    """Return the result of a run."""
    given = {
        "replies": ["Plums are 2 euros.", "Goodbye."],
        "tools": {"search", "pricer"},
        "stopped_because": "persona_marker",
        "cost_micro_usd": 1_500,
        "scores": {"quality.accuracy": ScoreMean(7.5, 2)},
        "unscored": {},
        **fields,
    }
    return RunResult(**given)


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        ({"tools_called": ["search", "pricer"]}, None),
        (
            {"tools_called": ["order"]},
            "tool 'order' was not called (called: pricer, search)",
        ),
        ({"tools_not_called": ["order"]}, None),
        ({"tools_not_called": ["search"]}, "tool 'search' was called"),
        ({"contains": ["PLUMS", "2 euros"]}, None),
        ({"contains": ["pears"]}, "no reply contains 'pears'"),
        ({"not_contains": ["pears"]}, None),
        ({"not_contains": ["goodbye"]}, "reply 2 contains 'goodbye'"),
        ({"max_turns": 2}, None),
        ({"max_turns": 1}, "the conversation took 2 turns (at most 1)"),
        ({"max_cost_usd": 0.0015}, None),
        ({"max_cost_usd": 0.001}, "the replies cost $0.001500 (at most $0.001)"),
        ({"min_score": {"quality.accuracy": 7.5}}, None),
        (
            {"min_score": {"quality.accuracy": 8}},
            "the mean of quality.accuracy is 7.50 over 2 scores (at least 8)",
        ),
        (
            {"min_score": {"quality.tone": 1}},
            "quality.tone has no score: the judge scored no reply",
        ),
    ],
)
def test_unmet_expectations_state_the_reason(expected, sentence):
    unmet = expectations.list_unmet(Expectations.model_validate(expected), run_result())
    assert unmet == ([] if sentence is None else [sentence])


def test_endless_conversation_misses_max_turns():
    unmet = expectations.list_unmet(
        Expectations(max_turns=2), run_result(stopped_because="max_turns")
    )
    assert unmet == ["no stop marker within 2 turns (at most 2)"]


def test_unknown_cost_misses_the_cost_limit():
    unmet = expectations.list_unmet(
        Expectations(max_cost_usd=1), run_result(cost_micro_usd=None)
    )
    assert unmet[0].startswith("the cost of the replies is unknown")


def test_every_unmet_expectation_is_listed():
    expected = Expectations(tools_called=("a", "b"), contains=("pears",), max_turns=1)
    assert len(expectations.list_unmet(expected, run_result())) == 4


# With judges.


@database
def test_judges_of_the_agent_score_each_reply(
    models: ScriptedModels, worker: RunWorker
):
    run = worker.run_test("judged")

    assert run.verdict == "passed"
    assert run.scores == {
        "quality.accuracy": {"mean": 8, "count": 2},
        "quality.tone": {"mean": 6, "count": 2},
    }
    scores = Score.objects.filter(user_id=run.user_id)
    turns = {line.turn_id for line in run.messages.filter(speaker="assistant")}
    assert {score.turn_id for score in scores} == turns
    assert {(score.agent, score.origin) for score in scores} == {("judged", "smoke")}


@database
def test_judges_receive_the_conversation(models: ScriptedModels, worker: RunWorker):
    models.persona = ["Any plums?", "How much?"]
    models.agent = ["Yes.", "A euro."]

    worker.run_test("judged")

    read = [str(body["messages"]) for body in models.requests_to("judge-test")]
    assert any("Any plums?" in text and "A euro." in text for text in read)


@database
def test_a_low_score_fails_the_run(models: ScriptedModels, worker: RunWorker):
    models.judge = answer(accuracy=4, tone=9)

    run = worker.run_test("judged")

    assert (run.state, run.verdict) == ("done", "failed")
    assert run.failures == [
        "the mean of quality.accuracy is 4.00 over 2 scores (at least 7)"
    ]


@database
def test_unreadable_judge_reply_is_reported(models: ScriptedModels, worker: RunWorker):
    models.judge = "I liked it very much."

    run = worker.run_test("judged")

    assert run.verdict == "failed"
    [failure] = run.failures
    assert failure.startswith("quality.accuracy has no score: ")
    assert "judg" in failure.split(": ", 1)[1]


@database
def test_failing_judge_is_reported_without_expectations(
    models: ScriptedModels, worker: RunWorker, configure
):
    configure(with_test("max_turns: 1", target="judged"))
    models.judge = "I liked it very much."

    run = worker.run_test("mine")

    assert (run.verdict, run.failures, run.scores) == ("passed", [], {})
    *_, line = terminal.ending_lines(run)
    assert line.startswith("    judge 'quality' has not scored every reply: ")


@database
def test_score_wait_is_limited(models: ScriptedModels, worker: RunWorker):
    models.judge = ScriptedAnswer(hang="headers")
    (run,) = worker.launch("judged")
    worker.check_queue()

    def is_judging() -> bool:
        run.refresh_from_db()
        return run.state == "judging"

    wait_until(is_judging)
    assert not run.close_if_judged()
    late = datetime.now(UTC) + timedelta(seconds=SCORES_SECONDS + 1)
    assert run.close_if_judged(late)
    run.refresh_from_db()
    assert (run.state, run.verdict) == ("done", "failed")
    assert run.failures == [
        "quality.accuracy has no score: not scored within 600 seconds"
    ]
    models.fake.release()


@database
def test_sweep_closes_judged_runs(models: ScriptedModels, worker: RunWorker):
    (run,) = worker.launch()
    worker.check_queue()

    def is_closed() -> bool:
        SmokeRun.objects.close_finished()
        run.refresh_from_db()
        return run.verdict == "passed"

    wait_until(is_closed)
    assert run.verdict == "passed"


@database
def test_expected_tool_calls_are_matched_by_name(models, worker, configure):
    configure(
        with_test(
            """
max_turns: 1
expect:
  tools_called: [tuned, skill_file]
  tools_not_called: [search]
  contains: [none]
""",
            target="boss",
        )
    )
    ask = ScriptedAnswer((), tool_calls=[("tuned", {"message": "Plums?"})])
    models.agent = [ask, "None left.", "We have none."]

    run = worker.run_test("mine")

    assert run.failures == ["tool 'skill_file' was not called (called: tuned)"]


@database
def test_score_is_awaited_only_while_its_task_is_open(models: ScriptedModels):
    (run,) = launch_queued()
    draft = TaskSpec(judge_queue.KIND, run.user_id, "assistant", delay_seconds=3600)
    (task,) = Task.objects.enqueue([draft])
    started = dialogue_storage.begin_run(run.pk, 1)
    dialogue_storage.end_dialogue(started, "max_turns")
    assert not run.close_if_judged()
    task.cancel()
    assert run.close_if_judged()
    SmokeRun.objects.filter(pk=run.pk).cancel()


def test_tool_is_found_at_every_depth():
    inner = {"object": "tool_call", "name": "search", "kind": "mcp", "calls": []}
    outer = {
        "object": "tool_call",
        "name": "ask_it",
        "kind": "subagent",
        "target": "Ask it!",
        "calls": [{"object": "model_call"}, inner],
    }
    assert tool_call_log.tool_names([{"object": "model_call"}, outer]) == {
        "ask_it",
        "Ask it!",
        "search",
    }
