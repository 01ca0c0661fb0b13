"""Where `history` and `context_overflow` are set, and what they do."""

import pytest

from telemetry.models import Turn
from tests.gateway.calls import ask, body, post, prompt, refused, threads, user_message

pytestmark = pytest.mark.database

AGENTS = """
providers:
  openai: {api_key: sk-openai-secret, base_url: "{fake}/v1", retries: 0}
history: %s
agents:
  - {name: plain, provider: openai, model: gpt-test}
  - {name: titles, provider: openai, model: gpt-test, history: none}
  - {name: own, provider: openai, model: gpt-test, history: auto}
  - {name: short, provider: openai, model: gpt-test, context_tokens: 256}
  - {name: trims, provider: openai, model: gpt-test, context_tokens: 256,
     context_overflow: trim}
"""
TRIMMED = "X-Coulisse-Trimmed-Messages"
SENT = [
    user_message("x"),
    {"role": "assistant", "content": "y"},
    user_message("z"),
]


@pytest.fixture
def server(running, configure):
    configure(AGENTS % "server")
    return running


def received(fake):
    return [text for role, text in prompt(fake.requests[-1]) if role != "system"]


def test_most_specific_setting_wins(client, fake, user):
    ask(client, user, "stored", agent="plain")
    ask(client, user, messages=SENT, agent="plain")
    assert received(fake) == ["stored", "Hello from the fake.", "z"]
    for agent, metadata in [
        ("plain", {"history": "auto"}),
        ("own", {}),
        ("titles", {}),
    ]:
        ask(client, user, messages=SENT, agent=agent, metadata=metadata)
        assert received(fake) == ["x", "y", "z"]


def test_agent_without_history_leaves_only_its_record(client, fake, user):
    completion = ask(client, user, "Write a title", agent="titles")
    assert threads(user) == []
    turn = Turn.objects.get(pk=completion.id.removeprefix("chatcmpl-"))
    assert (turn.agent, turn.outcome) == ("titles", "ok")


def conversation(pairs):
    sent = []
    for number in range(pairs):
        sent.append(user_message(f"question {number} " + "word " * 20))
        sent.append({"role": "assistant", "content": f"answer {number}"})
    return [*sent, user_message("last")]


def test_too_long_conversation_is_refused(server, fake, user):
    sent = conversation(20)
    error = refused(
        server, body(user, messages=sent, agent="short", metadata={"history": "auto"})
    )
    assert error["code"] == "context_length_exceeded"
    assert "'context_tokens' is 256" in error["message"]
    assert fake.requests == []


def test_oldest_messages_of_a_long_conversation_are_left_out(server, fake, user):
    sent = [{"role": "system", "content": "Be brief."}, *conversation(20)]
    request = body(user, messages=sent, agent="trims", metadata={"history": "auto"})
    response = post(server, request)
    assert response.status_code == 200
    got = received(fake)
    assert got == [each["content"] for each in sent][-len(got) :]
    assert got[0].startswith("question")
    assert response.headers[TRIMMED] == str(len(sent) - 1 - len(got))
    assert prompt(fake.requests[-1])[0] == ("system", "Be brief.")


def test_default_limit_is_for_stored_messages(server, fake, user):
    sent = [user_message("word " * 20_000), *SENT[1:]]
    request = body(user, messages=sent, agent="own")
    response = post(server, request)
    assert response.status_code == 200
    assert TRIMMED not in response.headers
    assert received(fake) == [each["content"] for each in sent]
