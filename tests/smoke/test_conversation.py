"""A persona and an agent talk."""

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
from memory.models import ExtractionJob, Owner, StoredMessage
from smoke.execution import dialogue, run_lifecycle
from smoke.execution.dialogue import OPENING_PROMPT
from smoke.models import SmokeMessage, SmokeRun
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import TaskSpec
from telemetry.models import Turn
from testing.wires import ScriptedAnswer
from tests.smoke.conftest import Holding, queued
from tests.smoke.stage import STAGE, Cast, said, subject, with_test
from tests.tasks.conftest import wait_until

pytestmark = pytest.mark.database

Configure = Callable[[str], None]


# How they talk


def test_conversation_ends_when_the_persona_stops(cast: Cast, holding: Holding):
    cast.persona = ["Any plums?", "Thanks! [FIN]"]

    run = holding.hold()

    assert said(run) == [
        ("persona", "Any plums?"),
        ("assistant", "We have plums."),
        ("persona", "Thanks! [FIN]"),
    ]
    assert (run.state, run.stopped_because) == ("done", "persona_marker")
    assert (run.verdict, run.failures, run.turns) == ("passed", [], 1)


def test_agent_can_end_the_conversation(cast: Cast, holding: Holding):
    cast.agent = ["Sorry, we are closed. [FIN]"]

    run = holding.hold()

    assert run.stopped_because == "assistant_marker"
    assert [speaker for speaker, _ in said(run)] == ["persona", "assistant"]


def test_endless_persona_is_stopped_at_max_turns(cast: Cast, holding: Holding):
    run = holding.hold()

    assert (run.state, run.stopped_because, run.turns) == ("done", "max_turns", 3)
    assert run.messages.count() == 6


def test_each_side_sees_the_other_as_user(cast: Cast, holding: Holding):
    cast.persona = ["Any plums?", "How much?", "[FIN]"]
    cast.agent = ["Yes.", "A euro."]

    holding.hold()

    last = cast.asked("persona-test")[-1]
    assert [(m["role"], m["content"]) for m in last["messages"]] == [
        ("system", "You want to buy plums."),
        ("user", OPENING_PROMPT),
        ("assistant", "Any plums?"),
        ("user", "Yes."),
        ("assistant", "How much?"),
        ("user", "A euro."),
    ]
    assert last["temperature"] == 0
    answered = cast.asked("gpt-test")[-1]
    assert [(m["role"], m["content"]) for m in answered["messages"]] == [
        ("system", "You are a test assistant."),
        ("user", "Any plums?"),
        ("assistant", "Yes."),
        ("user", "How much?"),
    ]


def test_initial_message_can_be_configured(
    cast: Cast, holding: Holding, configure: Configure
):
    configure(with_test('initial_message: "Hi!"\nmax_turns: 1'))

    run = holding.hold("mine")

    assert said(run)[0] == ("persona", "Hi!")
    assert cast.asked("persona-test") == []
    assert run.persona_micro_usd == 0


def test_agent_has_its_subagents(cast: Cast, holding: Holding, configure: Configure):
    configure(with_test("max_turns: 1", target="boss"))
    ask = ScriptedAnswer((), tool_calls=[("tuned", {"message": "Plums?"})])
    cast.agent = [ask, "None left.", "We have none."]

    run = holding.hold("mine")

    line = run.messages.get(speaker="assistant")
    assert line.text == "We have none."
    _, call, _ = line.calls
    assert (call["name"], call["result"]) == ("tuned", "None left.")
    assert call["calls"][0]["agent"] == "tuned"


# What it leaves behind


def test_run_stores_nothing_but_itself(
    cast: Cast, holding: Holding, configure: Configure
):
    configure(with_test("max_turns: 3", target="boss"))

    run = holding.hold("mine")

    assert run.turns == 3
    for table in (ExtractionJob, Owner, Turn):
        assert not table.objects.filter(user_id=run.user_id).exists()
    assert not StoredMessage.objects.filter(thread__user_id=run.user_id).exists()
    assert not UsageCounter.objects.filter(subject=subject(run)).exists()
    [body, *_] = cast.asked("gpt-test")
    # Neither memory nor tasks: both would be of a user that is none.
    assert [tool["function"]["name"] for tool in body["tools"]] == ["tuned"]


def test_usage_limits_do_not_apply(cast: Cast, holding: Holding, configure: Configure):
    configure(f"{STAGE}\nlimits: [{{per: principal, requests_per_hour: 1}}]")

    assert holding.hold().turns == 3


def test_run_stores_its_costs(cast: Cast, holding: Holding):
    cast.persona = [ScriptedAnswer(["More?"], usage=Usage(100, 10))]
    cast.agent = [ScriptedAnswer(["Yes."], usage=Usage(20, 5))]

    run = holding.hold()

    assert (run.cost_micro_usd, run.persona_micro_usd) == (3 * 25, 3 * 110)
    assert list(run.messages.values_list("cost_micro_usd", flat=True)) == [110, 25] * 3


def test_unknown_cost_is_null(cast: Cast, holding: Holding, configure: Configure):
    priced = "prices:\n  openai:"
    configure(STAGE.replace(priced, "prices:\n  anthropic:"))

    run = holding.hold()

    assert (run.cost_micro_usd, run.persona_micro_usd) == (None, None)


def test_each_conversation_has_a_separate_user(
    cast: Cast, holding: Holding, configure: Configure
):
    configure(with_test("max_turns: 1\nrepetitions: 12", target="greeter"))

    held = [holding.closed(run) for run in holding.launch("mine")]

    assert len({run.user_id for run in held}) == 12
    trial = live.current().get(EXPERIMENTS)["greeter"]
    chosen = [assignment.choose_variant(trial, UserId(run.user_id)) for run in held]
    assert [run.agent for run in held] == chosen
    assert [run.repetition for run in held] == list(range(1, 13))
    assert len({run.batch for run in held}) == 1


# What breaks it off


def test_error_keeps_the_earlier_lines(cast: Cast, holding: Holding):
    cast.agent = ["Yes.", ScriptedAnswer(status=500)]

    run = holding.hold()

    assert (run.state, run.stopped_because, run.verdict) == ("failed", "error", "")
    assert "500" in run.error
    assert [speaker for speaker, _ in said(run)] == ["persona", "assistant", "persona"]
    wait_until(lambda: holding.is_idle)
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "errored"


def test_failing_persona_is_an_error(cast: Cast, holding: Holding):
    cast.persona = [ScriptedAnswer(status=401)]

    run = holding.hold()

    assert (run.state, run.stopped_because) == ("failed", "error")
    assert "'openai'" in run.error


@pytest.mark.parametrize(
    ("who", "error"),
    [("persona", "the persona sent an empty"), ("agent", "agent 'assistant' sent")],
)
def test_empty_message_ends_the_run_as_error(
    cast: Cast, holding: Holding, who: str, error: str
):
    setattr(cast, who, [ScriptedAnswer([" "])])

    run = holding.hold()

    assert (run.state, run.stopped_because) == ("failed", "silence")
    assert run.error.startswith(error)


def test_run_timeout_is_enforced(cast: Cast, holding: Holding, configure: Configure):
    configure(with_test("timeout_seconds: 0.2"))
    cast.agent = [ScriptedAnswer(hang="headers")]
    # It goes on after a line that no clock could have kept from being said.
    (run,) = queued("mine")
    run_lifecycle.store_persona_message(
        run_lifecycle.begin_run(run.pk, 1), "More plums?", None
    )
    Task.objects.filter(key=f"smoke:{run.pk}").update(attempts=1)
    holding.take(run)

    holding.closed(run)

    assert (run.state, run.stopped_because) == ("failed", "timeout")
    assert run.error == "the conversation took longer than 0.2 seconds"
    assert said(run) == [("persona", "More plums?")]


def test_cancelled_run_ends_at_once(cast: Cast, holding: Holding):
    cast.agent = [ScriptedAnswer(hang="headers")]
    (run,) = holding.launch()
    holding.kick()
    cast.fake.wait(lambda: len(cast.fake.requests) == 2)

    assert run_lifecycle.cancel_runs([run.pk]) == 1
    cast.fake.wait(lambda: cast.fake.requests[-1].aborted)

    run.refresh_from_db()
    assert (run.state, run.verdict) == ("cancelled", "")
    wait_until(lambda: holding.is_idle)
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "cancelled"
    assert said(run) == [("persona", "More plums?")]


def test_queued_run_can_be_cancelled(cast: Cast, holding: Holding):
    (run,) = queued()
    run_lifecycle.cancel_runs([run.pk])
    holding.take(run)

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert Task.objects.get(key=f"smoke:{run.pk}").state == "cancelled"
    assert not cast.fake.requests


# Workers that die


def test_run_of_a_dead_worker_is_resumed(cast: Cast, holding: Holding):
    (run,) = queued()
    begun = run_lifecycle.begin_run(run.pk, 1)
    run_lifecycle.store_persona_message(begun, "Any plums?", None)
    Task.objects.filter(key=f"smoke:{run.pk}").update(attempts=1)
    cast.persona = ["[FIN]"]
    holding.take(run)

    holding.closed(run)

    assert said(run) == [
        ("persona", "Any plums?"),
        ("assistant", "We have plums."),
        ("persona", "[FIN]"),
    ]


def test_worker_that_lost_a_run_writes_nothing(cast: Cast):
    (run,) = queued()
    lost = run_lifecycle.begin_run(run.pk, 1)
    begun = run_lifecycle.begin_run(run.pk, 2)

    with pytest.raises(lifecycle.LeaseLost):
        run_lifecycle.store_persona_message(lost, "Any plums?", None)
    run_lifecycle.store_persona_message(begun, "Some plums?", None)
    assert said(run) == [("persona", "Some plums?")]
    run_lifecycle.fail_run(lost, "error", "too late")
    run.refresh_from_db()
    assert run.state == "running"


def test_abandoned_run_is_closed(cast: Cast):
    (run,), (other,) = queued(), queued()
    Task.objects.filter(key=f"smoke:{run.pk}").update(state="errored", error="gone")

    assert run_lifecycle.close_finished_runs() >= 1

    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "gone")
    other.refresh_from_db()
    assert other.state == "queued"
    run_lifecycle.cancel_runs([other.pk])


@pytest.mark.parametrize("state", ["queued", "judging"])
def test_sweep_query_count_does_not_grow_with_runs(cast: Cast, state: str):
    launched = queued(repetitions=4)
    for run in launched[1:]:
        SmokeRun.objects.filter(pk=run.pk).update(state="cancelled")
    for run in launched:
        lifecycle.enqueue(
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
        run_lifecycle.close_finished_runs()

    SmokeRun.objects.filter(pk__in=[run.pk for run in launched]).update(state=state)
    with CaptureQueriesContext(connection) as of_all:
        run_lifecycle.close_finished_runs()

    assert len(of_all) == len(of_one)
    found = SmokeRun.objects.filter(pk__in=[run.pk for run in launched])
    assert set(found.values_list("state", flat=True)) == {state}
    run_lifecycle.cancel_runs([run.pk for run in launched])


def test_persona_messages_swap_the_roles():
    flipped = dialogue.persona_messages("Be.", [dialogue.Utterance("persona", "a")])
    assert [message.role for message in flipped] == ["system", "user", "assistant"]


def test_lines_are_deleted_with_their_run(cast: Cast, holding: Holding):
    run = holding.hold()
    run.delete()
    assert not SmokeMessage.objects.filter(run_id=run.pk).exists()
