"""Complete replies, with the official client, on both wires."""

import json

import pytest

from core.events import Usage
from tests.gateway.calls import ask, body, plain, post, prompt, stored, user_message
from tests.gateway.openai_shapes import check

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@BOTH
def test_chat_returns_a_completion(client, fake, user, agent):
    fake.reply("Hel", "lo", "!")
    completion = ask(client, user, "hi", agent=agent)
    (choice,) = completion.choices
    assert choice.message.content == "Hello!"
    assert choice.finish_reason == "stop"
    assert completion.model == agent
    assert prompt(fake.requests[-1]) == [
        ("system", "You are a test assistant."),
        ("user", "hi"),
    ]
    assert stored(user) == [("user", "hi", ""), ("assistant", "Hello!", "stop")]


@BOTH
def test_usage_counts_cached_tokens_as_prompt_tokens(client, fake, user, agent):
    fake.reply("ok", usage=Usage(100, 20, cache_read_tokens=60, cache_write_tokens=10))
    usage = ask(client, user, agent=agent).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (100, 20)
    assert usage.total_tokens == 120
    assert usage.prompt_tokens_details.cached_tokens == 60


def test_usage_counts_reasoning_tokens_as_completion_tokens(client, fake, user):
    fake.reply("ok", usage=Usage(10, 30, reasoning_tokens=25))
    usage = ask(client, user).usage
    assert usage.completion_tokens == 30
    assert usage.completion_tokens_details.reasoning_tokens == 25


def test_usage_is_estimated_when_provider_reports_none(client, fake, user):
    fake.reply("x" * 400, usage=None)
    usage = ask(client, user, "y" * 800).usage
    assert 90 <= usage.completion_tokens <= 120
    assert 200 <= usage.prompt_tokens <= 240


@BOTH
def test_reasoning_is_returned_apart_from_content(client, fake, user, agent):
    fake.reply("42", reasoning=["let me", " think"])
    message = ask(client, user, agent=agent).choices[0].message
    assert message.content == "42"
    assert message.reasoning_content == "let me think"
    assert ("assistant", "42", "stop") in stored(user)


def test_refusal_is_passed_on(client, fake, user):
    fake.reply(refusal="I would rather not.")
    message = ask(client, user).choices[0].message
    assert message.content is None
    assert message.refusal == "I would rather not."
    assert stored(user)[-1] == ("assistant", "I would rather not.", "stop")


@BOTH
@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_finish_reason_is_returned_and_stored(client, fake, user, agent, reason):
    fake.reply("some", finish=reason)
    assert ask(client, user, agent=agent).choices[0].finish_reason == reason
    assert stored(user)[-1] == ("assistant", "some", reason)


@BOTH
def test_empty_reply_has_empty_content(client, fake, user, agent):
    fake.reply()
    message = ask(client, user, agent=agent).choices[0].message
    assert message.content == ""


@BOTH
def test_system_messages_follow_the_agents_prompt(client, fake, user, agent):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        user_message("hi"),
    ]
    ask(client, user, agent=agent, messages=messages)
    sent = prompt(fake.requests[-1])
    system = "\n\n".join(text for role, text in sent if role == "system")
    assert system == "You are a test assistant.\n\nBe brief.\n\nBe kind."
    assert {role for role, _ in sent} == {"system", "user"}


def test_system_messages_are_not_stored(client, fake, user):
    messages = [{"role": "system", "content": "secret rule"}, user_message("hi")]
    ask(client, user, messages=messages)
    assert [role for role, _, _ in stored(user)] == ["user", "assistant"]
    ask(client, user, "again")
    assert "secret rule" not in str(fake.bodies[-1])


@BOTH
def test_several_user_messages_are_one_turn(client, fake, user, agent):
    ask(client, user, "one", "two", agent=agent)
    sent = fake.requests[-1].body["messages"]
    message = [plain(m["content"]) for m in sent if m["role"] == "user"]
    assert "".join(message) == "onetwo"
    assert [text for _, text, _ in stored(user)][:2] == ["one", "two"]


def picture(*, detail: str | None = None, url: str = PIXEL) -> list:
    image = {"url": url, **({"detail": detail} if detail else {})}
    return [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": image},
    ]


def test_images_reach_openai_unchanged(client, fake, user):
    parts = picture(detail="low")
    ask(client, user, messages=[{"role": "user", "content": parts}])
    assert fake.bodies[-1]["messages"][-1]["content"] == parts


def test_images_reach_anthropic_in_its_format(client, fake, user):
    ask(client, user, agent="claude", messages=[{"role": "user", "content": picture()}])
    assert fake.bodies[-1]["messages"][-1]["content"] == [
        {"type": "text", "text": "What is this?"},
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": "iVBORw0KGgo=",
            },
        },
    ]


def test_image_urls_reach_anthropic(client, fake, user):
    parts = picture(url="https://example.org/cat.png")
    ask(client, user, agent="claude", messages=[{"role": "user", "content": parts}])
    source = fake.bodies[-1]["messages"][-1]["content"][1]["source"]
    assert source == {"type": "url", "url": "https://example.org/cat.png"}


@BOTH
def test_images_are_kept_in_history(client, fake, user, agent):
    ask(client, user, agent=agent, messages=[{"role": "user", "content": picture()}])
    ask(client, user, "and its colour?", agent=agent)
    assert "iVBORw0KGgo=" in str(fake.bodies[-1]["messages"])


@BOTH
def test_text_parts_are_joined(client, fake, user, agent):
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    ask(client, user, agent=agent, messages=[{"role": "user", "content": parts}])
    assert prompt(fake.requests[-1])[-1] == ("user", "one two")
    assert stored(user)[0] == ("user", "one two", "")


def test_message_names_reach_openai(client, fake, user):
    ask(client, user, messages=[{**user_message("hi"), "name": "alice"}])
    assert fake.bodies[-1]["messages"][-1] == {
        "role": "user",
        "content": "hi",
        "name": "alice",
    }
    ask(client, user, "again")
    assert fake.bodies[-1]["messages"][1]["name"] == "alice"


def test_message_names_are_dropped_for_anthropic(client, fake, user):
    ask(
        client, user, agent="claude", messages=[{**user_message("hi"), "name": "alice"}]
    )
    assert "alice" not in json.dumps(fake.bodies[-1])


@BOTH
def test_provider_key_is_sent_only_to_the_provider(client, server, fake, user, agent):
    response = post(server, body(user, agent=agent))
    assert "sk-" not in response.text
    headers = fake.requests[-1].headers
    assert f"sk-{'openai' if agent == 'assistant' else 'anthropic'}-" in str(headers)


def test_client_may_send_assistant_messages_back_with_extra_fields(client, fake, user):
    first = ask(client, user, "hi").choices[0].message
    sent = [user_message("hi"), first.model_dump(), user_message("more")]
    ask(client, user, messages=sent)
    assert [text for _, text in prompt(fake.requests[-1])[1:]] == [
        "hi",
        "Hello from the fake.",
        "more",
    ]


@pytest.mark.parametrize(
    "text", ["😀 zażółć 中文 \u2028", 'quote " \\ </script>', "\t\n"]
)
@BOTH
def test_unicode_text_survives_both_ways(client, fake, user, agent, text):
    fake.reply(text)
    message = f"<{text}>"
    completion = ask(client, user, message, agent=agent)
    assert completion.choices[0].message.content == text
    assert prompt(fake.requests[-1])[-1] == ("user", message)
    assert [row[1] for row in stored(user)] == [message, text]


async def test_async_client_gets_a_completion(async_client, fake, user):
    raw = await async_client.chat.completions.with_raw_response.create(**body(user))
    check("completion", json.loads(raw.content))
    assert raw.parse().choices[0].message.content == "Hello from the fake."


def test_completion_ids_are_unique(client, fake, user):
    assert ask(client, user).id != ask(client, user).id
