"""Conversations between a persona and an agent."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import UsageCounter
from config import live
from core.events import Usage
from core.ids import UserId
from experiments import assignment
from experiments.config import EXPERIMENTS
from judges.runs import judge_queue
from memory.models import Owner, StoredMessage
from smoke.execution import dialogue, dialogue_storage
from smoke.execution.dialogue import OPENING_PROMPT
from smoke.models import SmokeMessage, SmokeRun
from tasks.errors import LeaseLost
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from telemetry.models import Turn
from testing.wires import ScriptedAnswer
from tests.smoke.conftest import RunWorker, launch_queued
from tests.smoke.scripted_models import (
    SMOKE_CONFIG,
    ScriptedModels,
    counter_subject,
    transcript,
    with_test,
)
from tests.tasks.conftest import wait_until

pytestmark = pytest.mark.database

Configure = Callable[[str], None]


# Conversations.


def test_conversation_ends_when_the_persona_stops(
    models: ScriptedModels, worker: RunWorker
):
    models.persona = ["Any plums?", "Thanks! [FIN]"]

    run = worker.run_test()

    assert transcript(run) == [
        ("persona", "Any plums?"),
        ("assistant", "We have plums."),
        ("persona", "Thanks! [FIN]"),
    ]
    assert (run.state, run.stopped_because) == ("done", "persona_marker")
    assert (run.verdict, run.failures, run.turns) == ("passed", [], 1)


def test_agent_can_end_the_conversation(models: ScriptedModels, worker: RunWorker):
    models.agent = ["Sorry, we are closed. [FIN]"]

    run = worker.run_test()

    assert run.stopped_because == "assistant_marker"
    assert [speaker for speaker, _ in transcript(run)] == ["persona", "assistant"]


def test_endless_persona_is_stopped_at_max_turns(
    models: ScriptedModels, worker: RunWorker
):
    run = worker.run_test()

    assert (run.state, run.stopped_because, run.turns) == ("done", "max_turns", 3)
    assert run.messages.count() == 6


def test_each_side_sees_the_other_as_user(models: ScriptedModels, worker: RunWorker):
    models.persona = ["Any plums?", "How much?", "[FIN]"]
    models.agent = ["Yes.", "A euro."]

    worker.run_test()

    last = models.requests_to("persona-test")[-1]
    assert [(m["role"], m["content"]) for m in last["messages"]] == [
        ("system", "You want to buy plums."),
        ("user", OPENING_PROMPT),
        ("assistant", "Any plums?"),
        ("user", "Yes."),
        ("assistant", "How much?"),
        ("user", "A euro."),
    ]
    assert last["temperature"] == 0
    answered = models.requests_to("gpt-test")[-1]
    assert [(m["role"], m["content"]) for m in answered["messages"]] == [
        ("system", "You are a test assistant."),
        ("user", "Any plums?"),
        ("assistant", "Yes."),
        ("user", "How much?"),
    ]


def test_initial_message_can_be_configured(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test('initial_message: "Hi!"\nmax_turns: 1'))

    run = worker.run_test("mine")

    assert transcript(run)[0] == ("persona", "Hi!")
    assert models.requests_to("persona-test") == []
    assert run.persona_micro_usd == 0


def test_agent_has_its_subagents(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test("max_turns: 1", target="boss"))
    ask = ScriptedAnswer((), tool_calls=[("tuned", {"message": "Plums?"})])
    models.agent = [ask, "None left.", "We have none."]

    run = worker.run_test("mine")

    line = run.messages.get(speaker="assistant")
    assert line.text == "We have none."
    _, call, _ = line.calls
    assert (call["name"], call["result"]) == ("tuned", "None left.")
    assert call["calls"][0]["agent"] == "tuned"


# Side effects.


def test_run_stores_nothing_but_itself(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test("max_turns: 3", target="boss"))

    run = worker.run_test("mine")

    assert run.turns == 3
    assert not Task.objects.extractions().of_user(run.user_id).exists()
    for table in (Owner, Turn):
        assert not table.objects.filter(user_id=run.user_id).exists()
    assert not StoredMessage.objects.filter(thread__user_id=run.user_id).exists()
    assert not UsageCounter.objects.filter(subject=counter_subject(run)).exists()
    [body, *_] = models.requests_to("gpt-test")
    # No memory and no tasks: the user is synthetic.
    assert [tool["function"]["name"] for tool in body["tools"]] == ["tuned"]


def test_usage_limits_do_not_apply(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(f"{SMOKE_CONFIG}\nlimits: [{{per: principal, requests_per_hour: 1}}]")

    assert worker.run_test().turns == 3


def test_run_stores_its_costs(models: ScriptedModels, worker: RunWorker):
    models.persona = [ScriptedAnswer(["More?"], usage=Usage(100, 10))]
    models.agent = [ScriptedAnswer(["Yes."], usage=Usage(20, 5))]

    run = worker.run_test()

    assert (run.cost_micro_usd, run.persona_micro_usd) == (3 * 25, 3 * 110)
    costs = run.messages.values_list("cost_micro_usd", flat=True)
    assert sorted(costs) == [25] * 3 + [110] * 3


def test_unknown_cost_is_null(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    priced = "prices:\n  openai:"
    configure(SMOKE_CONFIG.replace(priced, "prices:\n  anthropic:"))

    run = worker.run_test()

    assert (run.cost_micro_usd, run.persona_micro_usd) == (None, None)


def test_each_conversation_has_a_separate_user(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test("max_turns: 1\nrepetitions: 12", target="greeter"))

    closed = [worker.wait_until_closed(run) for run in worker.launch("mine")]

    assert len({run.user_id for run in closed}) == 12
    experiment = live.current().get(EXPERIMENTS)["greeter"]
    chosen = [
        assignment.choose_variant(experiment, UserId(run.user_id)) for run in closed
    ]
    assert [run.agent for run in closed] == chosen
    assert [run.repetition for run in closed] == list(range(1, 13))
    assert len({run.batch for run in closed}) == 1


# Errors and timeouts.


def test_error_keeps_the_earlier_lines(models: ScriptedModels, worker: RunWorker):
    models.agent = ["Yes.", ScriptedAnswer(status=500)]

    run = worker.run_test()

    assert (run.state, run.stopped_because, run.verdict) == ("failed", "error", "")
    assert "500" in run.error
    assert [speaker for speaker, _ in transcript(run)] == [
        "persona",
        "assistant",
        "persona",
    ]
    wait_until(lambda: worker.is_idle)
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "errored"


def test_failing_persona_is_an_error(models: ScriptedModels, worker: RunWorker):
    models.persona = [ScriptedAnswer(status=401)]

    run = worker.run_test()

    assert (run.state, run.stopped_because) == ("failed", "error")
    assert "'openai'" in run.error


@pytest.mark.parametrize(
    ("who", "error"),
    [("persona", "the persona sent an empty"), ("agent", "agent 'assistant' sent")],
)
def test_empty_message_ends_the_run_as_error(
    models: ScriptedModels, worker: RunWorker, who: str, error: str
):
    setattr(models, who, [ScriptedAnswer([" "])])

    run = worker.run_test()

    assert (run.state, run.stopped_because) == ("failed", "silence")
    assert run.error.startswith(error)


def test_run_timeout_is_enforced(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test("timeout_seconds: 0.2"))
    models.agent = [ScriptedAnswer(hang="headers")]
    # The run continues after a message that needs no model, so no timeout prevents it.
    (run,) = launch_queued("mine")
    dialogue_storage.store_persona_message(
        dialogue_storage.begin_run(run.pk, 1), "More plums?", None
    )
    Task.objects.filter(key=f"smoke:{run.pk}").update(attempts=1)
    worker.accept(run)

    worker.wait_until_closed(run)

    assert (run.state, run.stopped_because) == ("failed", "timeout")
    assert run.error == "the conversation took longer than 0.2 seconds"
    assert transcript(run) == [("persona", "More plums?")]


def test_cancelled_run_ends_at_once(models: ScriptedModels, worker: RunWorker):
    models.agent = [ScriptedAnswer(hang="headers")]
    (run,) = worker.launch()
    worker.check_queue()
    models.fake.wait(lambda: len(models.fake.requests) == 2)

    assert SmokeRun.objects.filter(pk=run.pk).cancel() == 1
    models.fake.wait(lambda: models.fake.requests[-1].aborted)

    run.refresh_from_db()
    assert (run.state, run.verdict) == ("cancelled", "")
    wait_until(lambda: worker.is_idle)
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "cancelled"
    assert transcript(run) == [("persona", "More plums?")]


def test_queued_run_can_be_cancelled(models: ScriptedModels, worker: RunWorker):
    (run,) = launch_queued()
    SmokeRun.objects.filter(pk=run.pk).cancel()
    worker.accept(run)

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "cancelled"
    assert not models.fake.requests


# Killed workers.


def test_run_of_a_dead_worker_is_resumed(models: ScriptedModels, worker: RunWorker):
    (run,) = launch_queued()
    started = dialogue_storage.begin_run(run.pk, 1)
    dialogue_storage.store_persona_message(started, "Any plums?", None)
    Task.objects.filter(key=f"smoke:{run.pk}").update(attempts=1)
    models.persona = ["[FIN]"]
    worker.accept(run)

    worker.wait_until_closed(run)

    assert transcript(run) == [
        ("persona", "Any plums?"),
        ("assistant", "We have plums."),
        ("persona", "[FIN]"),
    ]


def test_worker_that_lost_a_run_writes_nothing(models: ScriptedModels):
    (run,) = launch_queued()
    lost = dialogue_storage.begin_run(run.pk, 1)
    started = dialogue_storage.begin_run(run.pk, 2)

    with pytest.raises(LeaseLost):
        dialogue_storage.store_persona_message(lost, "Any plums?", None)
    dialogue_storage.store_persona_message(started, "Some plums?", None)
    assert transcript(run) == [("persona", "Some plums?")]
    dialogue_storage.fail_run(lost, "error", "too late")
    run.refresh_from_db()
    assert run.state == "running"


def test_abandoned_run_is_closed(models: ScriptedModels):
    (run,), (other,) = launch_queued(), launch_queued()
    Task.objects.filter(key=f"smoke:{run.pk}").update(state="errored", error="gone")

    assert SmokeRun.objects.close_finished() >= 1

    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "gone")
    other.refresh_from_db()
    assert other.state == "queued"
    SmokeRun.objects.filter(pk=other.pk).cancel()


@pytest.mark.parametrize("state", ["queued", "judging"])
def test_sweep_query_count_does_not_grow_with_runs(models: ScriptedModels, state: str):
    launched = launch_queued(repetitions=4)
    for run in launched[1:]:
        SmokeRun.objects.filter(pk=run.pk).update(state="cancelled")
    for run in launched:
        Task.objects.enqueue(
            [
                TaskSpec(
                    judge_queue.KIND,
                    UserId(run.user_id),
                    "assistant",
                    delay_seconds=3600,
                )
            ]
        )
    SmokeRun.objects.filter(pk=launched[0].pk).update(state=state)
    with CaptureQueriesContext(connection) as of_one:
        SmokeRun.objects.close_finished()

    SmokeRun.objects.filter(pk__in=[run.pk for run in launched]).update(state=state)
    with CaptureQueriesContext(connection) as queries:
        SmokeRun.objects.close_finished()

    assert len(queries) == len(of_one)
    found = SmokeRun.objects.filter(pk__in=[run.pk for run in launched])
    assert set(found.values_list("state", flat=True)) == {state}
    SmokeRun.objects.filter(pk__in=[run.pk for run in launched]).cancel()


def test_persona_messages_swap_the_roles():
    flipped = dialogue.persona_messages("Be.", [dialogue.Utterance("persona", "a")])
    assert [message.role for message in flipped] == ["system", "user", "assistant"]


def test_lines_are_deleted_with_their_run(models: ScriptedModels, worker: RunWorker):
    run = worker.run_test()
    run.delete()
    assert not SmokeMessage.objects.filter(run_id=run.pk).exists()
