"""The history of a conversation from turn to turn, on both wires."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.apps import apps

from memory.models import StoredMessage
from testing.wires import ScriptedAnswer
from tests.gateway.calls import (
    ask,
    body,
    post,
    prompt,
    stored,
    threads,
    user_message,
)

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False])
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object"}},
}
LOOK = {"type": "function", "function": {"name": "look"}}


def sent_messages(request: Any) -> list[str]:
    """Return the messages sent to a provider, without system messages."""
    return [text for role, text in prompt(request) if role != "system"]


def replied(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@BOTH
@EITHER
def test_conversation_continues(server, fake, user, agent, stream):
    for question, answer in [("one", "1"), ("two", "2"), ("three", "3")]:
        fake.reply(answer)
        request = body(user, question, agent=agent, stream=stream)
        assert post(server, request).status_code == 200
    assert sent_messages(fake.requests[-1]) == ["one", "1", "two", "2", "three"]


@BOTH
@EITHER
def test_reply_is_stored_before_it_is_returned(server, fake, user, agent, stream):
    for number in range(5):
        name = f"{user}/{number}"
        post(server, body(name, agent=agent, stream=stream))
        assert len(stored(name)) == 2


def test_stream_is_stored_before_its_finish_reason(client, fake, user):
    for chunk in client.chat.completions.create(**body(user), stream=True):
        if chunk.choices[0].finish_reason:
            assert stored(user)[-1] == ("assistant", "Hello from the fake.", "stop")
            break
    else:
        pytest.fail("it never finished")


def test_agents_share_a_users_conversation(client, fake, user):
    ask(client, user, "to one")
    ask(client, user, "to the other", agent="claude")
    assert sent_messages(fake.requests[-1])[0] == "to one"
    replies = StoredMessage.objects.filter(role="assistant").order_by("-id")[:2]
    assert [row.agent for row in replies] == ["claude", "assistant"]


def test_stored_messages_have_the_turn_id(client, user):
    completion = ask(client, user)
    rows = StoredMessage.objects.order_by("-id")[:2]
    assert {f"chatcmpl-{row.turn_id.hex}" for row in rows} == {completion.id}


# Threads.


def test_threads_of_one_user_are_separate(client, fake, user):
    ask(client, user, "at home")
    ask(client, user, "at work", metadata={"thread_id": "work"})
    assert sent_messages(fake.requests[-1]) == ["at work"]
    ask(client, user, "more work", metadata={"thread_id": "work"})
    assert sent_messages(fake.requests[-1])[0] == "at work"
    assert threads(user) == ["", "work"]
    assert [text for _, text, _ in stored(user)][::2] == ["at home"]
    assert [text for _, text, _ in stored(user, "work")][::2] == [
        "at work",
        "more work",
    ]


def test_equal_thread_names_of_two_users_are_separate(client, fake, user):
    ask(client, user, "mine", metadata={"thread_id": "t"})
    ask(client, f"{user}-2", "yours", metadata={"thread_id": "t"})
    assert sent_messages(fake.requests[-1]) == ["yours"]


# Concurrent users and requests.


def test_concurrent_users_see_only_their_messages(server, fake, user):
    fake.default = lambda request: ScriptedAnswer([f"re: {sent_messages(request)[-1]}"])

    def send_messages(number: int) -> None:
        for turn in range(4):
            post(server, body(f"{user}/{number}", f"{number}-{turn}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send_messages, range(8)))
    for number in range(8):
        texts = [f"{number}-{turn}" for turn in range(4)]
        pairs = [text for question in texts for text in (question, f"re: {question}")]
        assert [text for _, text, _ in stored(f"{user}/{number}")] == pairs
    for request in fake.requests:
        own = sent_messages(request)[-1].split("-")[0]
        assert all(
            text.removeprefix("re: ").startswith(f"{own}-")
            for text in sent_messages(request)
        )


@EITHER
def test_concurrent_requests_of_one_user_keep_their_pairs(server, fake, user, stream):
    barrier = threading.Barrier(8)
    fake.default = lambda request: ScriptedAnswer([f"re: {sent_messages(request)[-1]}"])

    def send_messages(number: int) -> None:
        barrier.wait(60)
        post(server, body(user, f"q{number}", stream=stream))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send_messages, range(8)))
    texts = [text for _, text, _ in stored(user)]
    assert sorted(texts[::2]) == sorted(f"q{number}" for number in range(8))
    assert texts[1::2] == [f"re: {question}" for question in texts[::2]]


# Clients that send the conversation.


@BOTH
def test_resent_history_is_not_duplicated(client, fake, user, agent):
    sent = [{"role": "system", "content": "Be brief."}]
    for question in ("one", "two", "three"):
        sent.append(user_message(question))
        fake.reply(f"re: {question}")
        message = ask(client, user, agent=agent, messages=sent).choices[0].message
        sent.append(replied(message.content))
    assert sent_messages(fake.requests[-1]) == [
        "one",
        "re: one",
        "two",
        "re: two",
        "three",
    ]
    assert len(stored(user)) == 6


def test_client_history_replaces_the_stored_one(client, fake, user):
    ask(client, user, "stored")
    few_shot = [user_message("2+2"), replied("4"), user_message("3+3")]
    ask(client, user, messages=few_shot, metadata={"history": "client"})
    assert sent_messages(fake.requests[-1]) == ["2+2", "4", "3+3"]
    ask(client, user, "and now?")
    assert sent_messages(fake.requests[-1]) == [
        "stored",
        "Hello from the fake.",
        "and now?",
    ]
    _, own = threads(user)
    assert [text for _, text, _ in stored(user, own)] == [
        "2+2",
        "4",
        "3+3",
        "Hello from the fake.",
    ]


def rows() -> int:
    return sum(
        model._default_manager.count()
        for model in apps.get_models()
        if model._meta.managed
    )


@BOTH
@EITHER
def test_incognito_turn_stores_no_row(server, fake, user, agent, stream):
    post(server, body(user, "known", agent=agent))
    before = rows()
    for name in (user, f"{user}-stranger"):
        request = body(
            name,
            agent=agent,
            stream=stream,
            messages=[user_message("a"), replied("b"), user_message("secret")],
            metadata={"memory": "incognito", "thread_id": "t"},
        )
        assert post(server, request).status_code == 200
        assert sent_messages(fake.requests[-1]) == ["a", "b", "secret"]
    assert rows() == before
    assert threads(f"{user}-stranger") == []


# Truncation of the history.


def test_history_fits_the_agents_context(client, fake, user):
    for number in range(12):
        fake.reply("x" * 100, usage=None)
        ask(client, user, f"{number}: " + "y" * 100, agent="forgetful")
    sent = sent_messages(fake.requests[-1])
    # Four characters per token, and four tokens of overhead per message.
    assert sent[0].startswith("8: ")
    assert sent[-1].startswith("11: ")
    assert sum(len(text) for text in sent) < 256 * 4
    assert len(stored(user)) == 24


def test_long_question_is_never_truncated(client, fake, user):
    ask(client, user, "before", agent="forgetful")
    ask(client, user, "z" * 5000, agent="forgetful")
    assert sent_messages(fake.requests[-1]) == ["z" * 5000]


def test_history_is_truncated_per_agent(client, fake, user):
    ask(client, user, "y" * 2000, agent="forgetful")
    ask(client, user, "b", agent="forgetful")
    assert sent_messages(fake.requests[-1]) == ["b"]
    ask(client, user, "c")
    assert sent_messages(fake.requests[-1])[0] == "y" * 2000
