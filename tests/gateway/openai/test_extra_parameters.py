"""Parameters that OpenAI's API does not have, hints, and values that clients send."""

import pytest

from tests.conftest import CONFIG
from tests.gateway.calls import ask, body, post, prompt, refused, user_message

pytestmark = pytest.mark.database

DROPPED = "X-Coulisse-Dropped-Parameters"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}}
    for name in ("add", "subtract")
]


def choose(*names: str, mode: str = "required") -> dict:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    allowed = {"mode": mode, "tools": tools}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def dropped(server, request) -> set[str]:
    response = post(server, request)
    assert response.status_code == 200, response.text
    return set(filter(None, response.headers.get(DROPPED, "").split(", ")))


def set_mode(configure, mode: str) -> None:
    configure(
        CONFIG.replace("    model:", f"    unknown_parameters: {mode}\n    model:")
    )


@pytest.mark.parametrize("stream", [True, False])
def test_known_extras_reach_providers_that_have_them(server, fake, user, stream):
    extras = {"top_k": 5, "min_p": 0.0, "chat_template_kwargs": {"a": 1}}
    assert dropped(server, body(user, "hi", stream=stream, **extras)) == set()
    assert extras.items() <= fake.bodies[-1].items()
    request = body(user, "hi", agent="claude", stream=stream, **extras)
    assert dropped(server, request) == {"min_p", "chat_template_kwargs"}
    assert fake.bodies[-1]["top_k"] == 5
    assert "min_p" not in fake.bodies[-1]


def test_unknown_names_are_refused_with_a_suggestion(server, fake, user):
    for mistake, meant in (("temprature", "temperature"), ("topk", "top_k")):
        refusal = refused(server, body(user, "hi", **{mistake: 1}))
        assert (refusal["param"], refusal["code"]) == (mistake, "unknown_parameter")
        assert f"'{meant}'" in refusal["message"]
    assert fake.requests == []


def test_null_extras_are_not_sent(server, fake, user):
    assert dropped(server, body(user, "hi", top_k=None, whatever=None)) == set()
    assert not {"top_k", "whatever"} & fake.bodies[-1].keys()


@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_agent_passes_all_extras(server, configure, fake, user, agent):
    set_mode(configure, "pass")
    extras = {"whatever": {"a": [1]}, "min_p": 1}
    assert dropped(server, body(user, "hi", agent=agent, **extras)) == set()
    assert extras.items() <= fake.bodies[-1].items()


def test_extras_replace_no_field_of_the_server(server, configure, fake, user):
    set_mode(configure, "pass")
    post(server, body(user, "hi", agent="claude", system="obey", stop_sequences=["x"]))
    assert "test assistant" in fake.bodies[-1]["system"]


def test_agent_drops_all_extras(server, configure, fake, user):
    set_mode(configure, "drop")
    request = body(user, "hi", top_k=5, **{"what ever\n": 1})
    assert dropped(server, request) == {"top_k", "what%20ever%0A"}
    assert "top_k" not in fake.bodies[-1]


def test_agent_refuses_all_extras(server, configure, fake, user):
    set_mode(configure, "refuse")
    assert refused(server, body(user, "hi", top_k=5))["param"] == "top_k"
    assert fake.requests == []


@pytest.mark.parametrize(
    "extras",
    [
        {f"x{number}": 1 for number in range(33)},
        {"whatever": "x" * 65_536},
        {"x" * 65: 1},
    ],
    ids=["many", "large", "long name"],
)
def test_extras_are_limited(server, configure, fake, user, extras):
    set_mode(configure, "pass")
    refusal = refused(server, body(user, "hi", **extras))
    assert refusal["code"] == "unknown_parameter"
    assert len(refusal["message"]) < 400
    assert fake.requests == []


def test_unsupported_hints_are_dropped_and_named(server, fake, user):
    hints = {"seed": 1, "prompt_cache_key": "k", "store": True}
    request = body(user, "hi", agent="claude", **hints)
    assert dropped(server, request) == {"seed", "prompt_cache_key"}
    assert not hints.keys() & fake.bodies[-1].keys()


NEUTRAL = {
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "logit_bias": {},
    "n": 1,
    "store": False,
    "logprobs": False,
}


def test_neutral_values_need_no_support(server, fake, user):
    assert dropped(server, body(user, "hi", agent="claude", **NEUTRAL)) == set()
    assert not NEUTRAL.keys() & fake.bodies[-1].keys()


@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_allowed_tools_limit_the_tools(client, fake, user, agent):
    ask(client, user, agent=agent, tools=TOOLS, tool_choice=choose("subtract"))
    [sent] = fake.bodies[-1]["tools"]
    assert sent.get("name", sent.get("function", {}).get("name")) == "subtract"
    choice = {"assistant": "required", "claude": {"type": "any"}}[agent]
    assert fake.bodies[-1]["tool_choice"] == choice


@pytest.mark.parametrize(
    "choice",
    [
        choose("multiply"),
        choose(),
        choose("add", mode="none"),
        {"type": "allowed_tools"},
    ],
    ids=["unknown", "empty", "mode", "incomplete"],
)
def test_invalid_allowed_tools_are_refused(server, fake, user, choice):
    refusal = refused(server, body(user, "hi", tools=TOOLS, tool_choice=choice))
    assert refusal["param"].startswith("tool_choice")
    assert fake.requests == []


def test_no_tools_with_automatic_choice_are_accepted(client, fake, user):
    ask(client, user, tools=[], tool_choice="auto")
    assert not {"tools", "tool_choice"} & fake.bodies[-1].keys()


def test_custom_tools_are_refused_with_a_remedy(server, fake, user):
    tool = {"type": "custom", "custom": {"name": "code"}}
    refusal = refused(server, body(user, "hi", tools=[*TOOLS, tool]))
    assert refusal["param"] == "tools[2]"
    assert "function with one argument" in refusal["message"]
    assert fake.requests == []


def test_obfuscation_is_accepted(client, fake, user):
    fake.reply("hello")
    stream = client.chat.completions.create(
        model="assistant",
        messages=[user_message("hi")],
        user=user,
        stream=True,
        stream_options={"include_obfuscation": True},
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "hello"


def test_original_image_detail_is_passed(client, fake, user):
    image = {"url": "data:image/png;base64,aGVsbG8=", "detail": "original"}
    part = {"type": "image_url", "image_url": image}
    client.chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": [part]}], user=user
    )
    assert fake.bodies[-1]["messages"][-1]["content"][0]["image_url"] == image


def test_instructions_alone_are_a_request(client, fake, user):
    client.chat.completions.create(
        model="assistant", messages=[{"role": "system", "content": "Greet"}], user=user
    )
    assert prompt(fake.requests[-1])[-1] == ("system", "Greet")


def test_request_may_end_with_the_assistant(client, fake, user):
    messages = [user_message("hi"), {"role": "assistant", "content": "He"}]
    client.chat.completions.create(model="assistant", messages=messages, user=user)
    assert prompt(fake.requests[-1])[-1] == ("assistant", "He")
