"""Marks for caching (`cache_control`) on messages and tools."""

import pytest

from tests.conftest import CONFIG
from tests.gateway.calls import body, post, refused, stored

pytestmark = pytest.mark.database

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def marked(role: str, text: str, mark: dict = MARK) -> dict:
    part = {"type": "text", "text": text, "cache_control": mark}
    return {"role": role, "content": [part]}


def tool(**more) -> dict:
    return {"type": "function", "function": {"name": "add", "parameters": {}}, **more}


def send(server, user, messages, **more) -> None:
    request = {**body(user), "messages": messages, **more}
    response = post(server, request)
    assert response.status_code == 200, response.text


def marks(sent: dict) -> list[str]:
    """Return where a request to Anthropic is marked."""
    system = sent.get("system", ())
    blocks = [*sent.get("tools", ()), *(system if isinstance(system, list) else ())]
    for message in sent["messages"]:
        blocks += message["content"]
    return [
        each.get("text", each.get("name")) for each in blocks if "cache_control" in each
    ]


def test_anthropic_receives_the_marks(server, fake, user):
    messages = [marked("system", "Be brief"), marked("user", "hi", HOUR)]
    send(server, user, messages, model="claude", tools=[tool(cache_control=MARK)])
    sent = fake.bodies[-1]
    assert marks(sent) == ["add", "Be brief", "hi"]
    # A longer mark must not follow a shorter one.
    assert sent["tools"][0]["cache_control"] == HOUR


def test_anthropic_receives_four_marks(server, fake, user):
    messages = [marked("system", "Be brief")]
    for number in range(5):
        messages += [marked("user", f"q{number}"), marked("assistant", f"a{number}")]
    messages.append(marked("user", "last"))
    send(server, user, messages, model="claude")
    assert marks(fake.bodies[-1]) == ["Be brief", "q4", "a4", "last"]


def test_long_preamble_is_marked_without_the_client(server, configure, fake, user):
    configure(CONFIG.replace("You are a test assistant.", "x" * 5_000))
    send(server, user, [{"role": "user", "content": "hi"}], model="claude")
    assert marks(fake.bodies[-1]) == ["x" * 5_000]


def test_compatible_server_receives_the_marks(server, fake, user):
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    parts = [{"type": "text", "text": "see"}, {**image, "cache_control": MARK}]
    messages = [marked("system", "Be brief"), {"role": "user", "content": parts}]
    send(server, user, messages, tools=[tool(cache_control=MARK)])
    sent = fake.bodies[-1]
    assert sent["messages"][-2] == marked("system", "Be brief")
    assert sent["messages"][-1]["content"] == parts
    assert sent["tools"][0]["cache_control"] == MARK


def test_other_providers_receive_no_marks(server, configure, fake, user):
    configure(CONFIG.replace("  openai:\n", "  openai:\n    kind: groq\n"))
    send(server, user, [marked("user", "hi")], tools=[tool(cache_control=MARK)])
    assert "cache_control" not in str(fake.bodies[-1])
    assert fake.bodies[-1]["messages"][-1]["content"] == "hi"


def test_marks_are_not_part_of_the_conversation(server, fake, user):
    fake.reply("hello")
    send(server, user, [marked("user", "hi")])
    fake.reply("fine")
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        marked("user", "how are you"),
    ]
    send(server, user, messages)
    assert [text for _, text, _ in stored(user)] == [
        "hi",
        "hello",
        "how are you",
        "fine",
    ]


@pytest.mark.parametrize("mark", [{"type": "x"}, {**MARK, "ttl": "2h"}, "yes"])
def test_invalid_mark_is_refused(server, fake, user, mark):
    request = {**body(user), "messages": [marked("user", "hi", mark)]}
    assert "cache_control" in refused(server, request)["param"]
    assert fake.requests == []
