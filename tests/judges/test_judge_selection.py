"""Which replies are judged, and how often."""

import random
from contextlib import aclosing
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.config import AgentConfig
from core.ids import new_turn_id
from core.messages import Message
from judges.models import Score
from judges.runs import judge_queue
from judges.scoring import judge_context
from memory.models import Thread
from providers import sync_bridge
from tasks.models import Task
from tests.gateway.calls import ask, body, open_connection, post, prompt
from tests.judges.judge_tasks import (
    judge_requests,
    tasks_of,
    wait_for_task,
)
from tests.judges.sample_judges import JUDGE_CONFIG
from tests.tasks.conftest import TIMEOUT_SECONDS, wait_until
from turns import flow
from turns.lifecycle import post_turn_hooks
from turns.preparation.options import TurnOptions
from turns.turn import TurnRequest

pytestmark = pytest.mark.database

JUDGED = AgentConfig(name="judged", provider="openai", model="m", judges=("quality",))
PARIS = judge_context.build_context((), [Message("user", "The capital?")], "Paris.")


def test_agent_without_judges_costs_no_query(database):
    plain = AgentConfig(name="a", provider="openai", model="m")
    ended = SimpleNamespace(turn=SimpleNamespace(agent=plain))
    with CaptureQueriesContext(connection) as queries:
        post_turn_hooks.enqueue_judging(ended)
    assert len(queries) == 0


def test_disabled_judge_scores_nothing(worker, judge, client, user, user_id):
    ask(client, user, "The capital?", agent="parked")
    assert tasks_of(user_id) == []


@pytest.mark.parametrize(
    "limits", ["", "\nlimits: [{per: principal, tokens_per_day: 9999}]"]
)
def test_incognito_chat_is_not_judged(
    worker, judge, configure, client, user, user_id, limits
):
    # With limits, the usage of an incognito chat is stored.
    configure(JUDGE_CONFIG + limits)
    ask(client, user, agent="judged", metadata={"memory": "incognito"})
    assert tasks_of(user_id) == []


@pytest.mark.parametrize("deltas", [[], ["  \n"]])
def test_empty_reply_is_not_judged(worker, fake, server, user, user_id, deltas):
    fake.reply(*deltas)
    assert post(server, body(user, agent="judged")).status_code == 200
    assert tasks_of(user_id) == []


def test_reply_with_client_tool_calls_is_not_judged(
    worker, fake, server, user, user_id
):
    fake.reply("Let me see.", tool_calls=[("look", {})])
    tool = {"type": "function", "function": {"name": "look"}}
    assert post(server, body(user, agent="judged", tools=[tool])).status_code == 200
    assert tasks_of(user_id) == []


def test_failed_or_cancelled_reply_is_not_judged(worker, fake, server, user, user_id):
    fake.cut("mid_stream")
    post(server, body(user, agent="judged", stream=True))
    fake.hang("mid_stream")
    with open_connection(server, body(user, agent="judged", stream=True)) as caller:
        caller.read_until("Hello")
    rows = Thread.objects.filter(user_id=user_id, length=4)
    wait_until(rows.exists)
    assert tasks_of(user_id) == []


# Sampling.


@pytest.mark.parametrize("rate", [0, 0.2, 1])
def test_judged_share_equals_the_sampling_rate(rate, monkeypatch):
    monkeypatch.setattr(judge_queue, "random", random.Random(7))
    sampled = sum(judge_queue.is_sampled(rate) for _ in range(2_000))
    assert sampled == pytest.approx(2_000 * rate, abs=60 if 0 < rate < 1 else 0)


def test_judges_sample_independently(server, configure, user_id, monkeypatch):
    configure(JUDGE_CONFIG.replace("sampling_rate: 0", "sampling_rate: 0.5"))
    agent = JUDGED.model_copy(update={"judges": ("quality", "never")})
    monkeypatch.setattr(judge_queue, "random", random.Random(7))
    counts = [
        len(judge_queue.sample_tasks(agent, turn_id=new_turn_id(), user_id=user_id))
        for _ in range(100)
    ]
    assert set(counts) == {1, 2}


@pytest.mark.parametrize(("rate", "count"), [("0", 0), ("0.000001", 20)])
def test_smoke_reply_is_judged_unless_the_judge_is_disabled(
    server, configure, user_id, rate, count
):
    configure(JUDGE_CONFIG.replace("sampling_rate: 0\n", f"sampling_rate: {rate}\n"))
    agent = JUDGED.model_copy(update={"judges": ("never",)})
    specs = [
        judge_queue.sample_tasks(
            agent, turn_id=new_turn_id(), user_id=user_id, origin="smoke"
        )
        for _ in range(20)
    ]
    assert sum(map(len, specs)) == count


def test_reply_is_judged_once_despite_repeated_requests(worker, judge, fake, user_id):
    turn_id = new_turn_id()
    for _ in range(2):
        specs = judge_queue.sample_tasks(
            JUDGED, turn_id=turn_id, user_id=user_id, context=PARIS
        )
        Task.objects.enqueue(specs)
    wait_for_task(worker, user_id)
    assert len(judge_requests(fake)) == 1


# Replies without a stored transcript.


def test_shadow_reply_is_judged_from_its_payload(worker, judge, fake, user_id):
    specs = judge_queue.sample_tasks(
        JUDGED,
        turn_id=new_turn_id(),
        user_id=user_id,
        experiment="trial",
        origin="shadow",
        context=PARIS,
    )
    Task.objects.enqueue(specs)
    wait_for_task(worker, user_id)
    row = Score.objects.filter(user_id=user_id).first()
    assert (row.experiment, row.origin) == ("trial", "shadow")
    assert "The capital?" in prompt(judge_requests(fake)[0])[1][1]


def test_unstored_smoke_turn_is_judged(worker, judge, fake, user, user_id):
    messages = [
        Message("user", "Hello."),
        Message("assistant", "Hello!"),
        Message("user", "The capital?"),
    ]
    request = TurnRequest(
        turn_id=new_turn_id(),
        agent="judged",
        user_id=user_id,
        messages=messages,
        options=TurnOptions(is_incognito=True),
        parameters={},
        origin="smoke",
        on_end=lambda reply, calls: None,
    )
    sync_bridge.run_sync(run_turn(request), timeout_seconds=TIMEOUT_SECONDS)
    wait_for_task(worker, user_id)
    assert Score.objects.filter(user_id=user_id, origin="smoke").count() == 2
    earlier, turn = prompt(judge_requests(fake)[0])[1][1].split(
        "What the reply answers:"
    )
    assert "Hello!" in earlier
    assert "The capital?" in turn
    assert not Thread.objects.filter(user_id=user_id).exists()


async def run_turn(request: TurnRequest) -> None:
    async with aclosing(flow.run(request)) as events:
        async for _ in events:
            pass
