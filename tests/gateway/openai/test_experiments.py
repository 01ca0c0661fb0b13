"""Experiments as models: one of their agents replies."""

import uuid

import httpx2
import openai
import pytest
from django.db.models import F

from access.models import ApiToken
from access.tokens import api_tokens, token_secrets
from access.users import identity
from config import live
from experiments import assignment, bandits, exploration
from experiments.config import EXPERIMENTS
from judges.models import Score
from judges.scoring.verdict_parser import JudgeResult
from telemetry.models import Turn
from telemetry.storage import turn_store
from testing.wires import ScriptedAnswer
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import ask, error
from tests.gateway.mcp_calls import with_client
from tests.judges.sample_judges import JUDGES

pytestmark = pytest.mark.database

VARIANTS = """
  - {name: calm, provider: openai, model: gpt-calm, preamble: Be calm., judges: [never]}
  - {name: keen, provider: openai, model: gpt-keen, preamble: Be keen., judges: [never]}
  - {name: boss, provider: openai, model: gpt-test, subagents: [helper]}
"""
EXPERIMENTS_YAML = """
experiments:
  - name: helper
    purpose: Helps with anything.
    strategy: split
    variants: [{agent: calm}, {agent: keen}]
  - name: learner
    strategy: bandit
    metric: never.tone
    epsilon: 0
    min_samples: 2
    variants: [{agent: calm}, {agent: keen}]
"""
STAGE = CONFIG + VARIANTS + JUDGES + EXPERIMENTS_YAML


@pytest.fixture
def stage(configure, client):
    configure(STAGE)
    bandits.clear_cache()
    return client


def variant_of(user: str, name: str = "helper") -> str:
    experiment = live.current().get(EXPERIMENTS)[name]
    return assignment.choose_variant(experiment, identity.derive_user_id(user))


def of_each(name: str = "helper") -> dict[str, str]:
    """Return a user of each variant."""
    found: dict[str, str] = {}
    while len(found) < 2:
        user = f"user-{uuid.uuid4()}"
        found.setdefault(variant_of(user, name), user)
    return found


def turn_of(user: str) -> Turn:
    return Turn.objects.get(user_id=identity.derive_user_id(user))


def test_experiment_routes_each_user_to_their_variant(stage, fake):
    for agent, user in of_each().items():
        for _ in range(2):
            fake.reply("Yes.")
            result = ask(stage, user, "Well?", agent="helper")
            assert (result.model, result.choices[0].message.content) == (
                "helper",
                "Yes.",
            )
            assert fake.bodies[-1]["model"] == f"gpt-{agent}"
            assert fake.bodies[-1]["messages"][0]["content"] == f"Be {agent}."
        stored = Turn.objects.filter(user_id=identity.derive_user_id(user))
        assert set(stored.values_list("agent", "experiment", "origin")) == {
            (agent, "helper", "chat")
        }


def test_stream_model_is_the_experiment(stage, fake, user):
    fake.reply("Yes.")
    request = {"model": "helper", "messages": [{"role": "user", "content": "Well?"}]}
    chunks = list(
        stage.chat.completions.create(**request, stream=True, safety_identifier=user)
    )
    assert {chunk.model for chunk in chunks} == {"helper"}


def test_variant_called_by_name_has_no_experiment(stage, fake, user):
    fake.reply("Yes.")
    ask(stage, user, "Well?", agent="calm")
    assert turn_of(user).experiment is None


def test_experiments_are_listed_as_models(stage, running):
    names = [model.id for model in stage.models.list()]
    assert names[-3:] == ["boss", "helper", "learner"]
    assert stage.models.retrieve("helper").id == "helper"
    with pytest.raises(openai.NotFoundError, match="did you mean 'helper'"):
        stage.models.retrieve("helpr")


def test_suggestion_may_name_an_experiment(stage, user, fake):
    with pytest.raises(openai.NotFoundError, match="did you mean 'learner'"):
        ask(stage, user, "Well?", agent="lerner")
    assert fake.requests == []


def test_token_for_experiment_allows_only_the_experiment_name(
    configure, running, fake, user
):
    configure(STAGE + "\nauth: {proxy: {tokens: {}}}\n")
    secret = api_tokens.create_token("t", user, by=ADA, agents=["helper"])[1]
    with openai.OpenAI(
        base_url=f"{running}/v1", api_key=secret, max_retries=0
    ) as client:
        assert [model.id for model in client.models.list()] == ["helper"]
        fake.reply("Yes.")
        ask(client, user, "Well?", agent="helper")
        for agent in ("calm", "keen"):
            with pytest.raises(openai.NotFoundError):
                ask(client, user, "Well?", agent=agent)


def test_changed_token_is_checked_by_experiment_name(configure, running, fake, user):
    configure(STAGE + "\nauth: {proxy: {tokens: {}}}\n")
    secret = api_tokens.create_token("t", user, by=ADA, agents=["helper"])[1]
    with openai.OpenAI(
        base_url=f"{running}/v1", api_key=secret, max_retries=0
    ) as client:
        for _ in range(2):
            fake.reply("Yes.")
            ask(client, user, "Well?", agent="helper")
            row = ApiToken.objects.filter(digest=token_secrets.digest(secret))
            assert row.update(version=F("version") + 1)


LIMITS = "\nlimits: [{per: agent, name: NAME, requests_per_day: 1}]\n"


def test_experiment_limit_covers_all_variants(configure, client, fake):
    configure(STAGE + LIMITS.replace("NAME", "helper"))
    one, other = of_each().values()
    fake.reply("Yes.")
    ask(client, one, "Well?", agent="helper")
    with pytest.raises(openai.RateLimitError):
        ask(client, other, "Well?", agent="helper")
    fake.reply("Yes.")
    ask(client, other, "Well?", agent="calm")


def test_variant_limit_applies_through_the_experiment(configure, client, fake):
    configure(STAGE + LIMITS.replace("NAME", "keen"))
    users = of_each()
    fake.reply("Yes.")
    ask(client, users["keen"], "Well?", agent="helper")
    with pytest.raises(openai.RateLimitError):
        ask(client, users["keen"], "Well?", agent="keen")
    fake.reply("Yes.")
    ask(client, users["calm"], "Well?", agent="helper")


def test_a_subagent_may_be_an_experiment(stage, fake):
    for agent, user in of_each().items():
        fake.call_tool("helper", {"message": "Help."})
        fake.reply("Done.")
        fake.reply("It is done.")
        ask(stage, user, "Well?", agent="boss")
        [offered] = fake.bodies[-3]["tools"]
        assert offered["function"]["name"] == "helper"
        assert offered["function"]["description"] == "Helps with anything."
        assert fake.bodies[-2]["model"] == f"gpt-{agent}"
        record = turn_store.load_record(turn_of(user).pk)
        [call] = [call for call in record.calls if hasattr(call, "target")]
        assert (call.name, call.target) == ("helper", agent)
        assert record.experiment is None


def test_mcp_clients_may_call_an_experiment(stage, configure, running, fake, user):
    configure(STAGE + "\nmcp_server: {agents: [helper], memory_tools: false}\n")
    listed = with_client(running, user, lambda client: client.list_tools()).tools
    assert [(tool.name, tool.description) for tool in listed] == [
        ("helper", "Helps with anything.")
    ]
    fake.reply("Yes.")
    requested = {"message": "Well?"}
    answer = with_client(
        running, user, lambda client: client.call_tool("helper", requested)
    )
    result = answer.structured_content
    assert (result["reply"], result["agent"]) == ("Yes.", "helper")
    assert turn_of(user).agent == variant_of(user)


def judged(agent: str, *values: int, experiment: str = "learner") -> None:
    for value in values:
        Score.objects.store(
            {"tone": JudgeResult(value, "")},
            turn_id=uuid.uuid4(),
            user_id=uuid.uuid4(),
            judge="never",
            agent=agent,
            experiment=experiment,
        )


def answered_by(stage, fake, user: str) -> str:
    fake.reply("Yes.")
    ask(stage, user, "Well?", agent="learner")
    return fake.bodies[-1]["model"].removeprefix("gpt-")


def test_bandit_follows_current_scores(stage, fake, clean_scores):
    judged("calm", 3, 4)
    # Scores from outside the experiment do not count.
    judged("keen", 9, 9, experiment="helper")
    judged("keen", 10)
    user = f"user-{uuid.uuid4()}"
    assert answered_by(stage, fake, user) == "keen"  # It lacks a score.
    judged("keen", 1, 0, 1)
    judged("calm", 5)
    assert answered_by(stage, fake, user) == "keen"  # They were just read.
    bandits.clear_cache()
    assert answered_by(stage, fake, user) == "calm"
    judged("keen", *[10] * 9)
    bandits.clear_cache()
    assert answered_by(stage, fake, user) == "keen"


def test_unscored_variant_does_not_take_all_traffic(
    stage, fake, clean_scores, monkeypatch
):
    monkeypatch.setattr(exploration, "MIN_TURNS", 3)
    monkeypatch.setattr(exploration, "TURNS_PER_SCORE", 1)
    judged("keen", 8, 8)
    user = f"user-{uuid.uuid4()}"
    found = [answered_by(stage, fake, user) for _ in range(5)]
    assert found == ["calm"] * 3 + ["keen"] * 2


@pytest.fixture
def clean_scores():
    from judges.models import Score

    yield
    Score.objects.filter(judge="never").delete()


def test_request_without_user_is_refused_before_assignment(stage, running, fake):
    requested = {"model": "learner", "messages": [{"role": "user", "content": "hi"}]}
    answer = httpx2.post(f"{running}/v1/chat/completions", json=requested)
    assert error(answer, 400)["param"] == "safety_identifier"
    assert fake.requests == []


def test_agent_by_name_needs_no_experiment_query(stage, fake, user, monkeypatch):
    def trip(*_):
        raise AssertionError

    monkeypatch.setattr(bandits, "load_scores", trip)
    monkeypatch.setattr(assignment, "choose_variant", trip)
    fake.default = lambda request: ScriptedAnswer(["Yes."])
    assert ask(stage, user, "Well?", agent="calm").model == "calm"


def test_edited_bandit_starts_without_old_scores(stage, configure, fake, clean_scores):
    judged("calm", 3, 4)
    judged("keen", 8, 8)
    user = f"user-{uuid.uuid4()}"
    assert answered_by(stage, fake, user) == "keen"
    judged("calm", *[10] * 9)
    configure(
        STAGE.replace("epsilon: 0", "epsilon: 0.0\n    bandit_window_seconds: 60")
    )
    assert answered_by(stage, fake, user) == "calm"
