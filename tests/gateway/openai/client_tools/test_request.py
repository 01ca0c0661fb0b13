"""The client's tools in the request."""

import pytest

from tests.gateway.calls import (
    body,
    refused,
    user_message,
)
from tests.gateway.openai.client_tools.exchange import (
    EITHER,
    LISBON,
    OWN,
    WEATHER,
    exchanges,
    tool_names,
    turn,
)

pytestmark = pytest.mark.database

# The tools in the request.

CHOICES = [
    (None, ["weather", "clock", *OWN], None),
    ("auto", ["weather", "clock", *OWN], "auto"),
    ("none", OWN, None),
    ("required", ["weather", "clock"], "required"),
    (
        {"type": "function", "function": {"name": "clock"}},
        ["weather", "clock"],
        {"type": "function", "function": {"name": "clock"}},
    ),
]


@EITHER
@pytest.mark.parametrize(("choice", "offered", "passed"), CHOICES)
def test_tool_choice_applies_to_client_tools(
    client, fake, user, stream, choice, offered, passed
):
    more = {} if choice is None else {"tool_choice": choice}
    turn(client, user, [user_message("hi")], agent="helper", stream=stream, **more)
    assert sorted(tool_names(fake.requests[0])) == sorted(offered)
    assert fake.bodies[0].get("tool_choice") == passed


def test_tool_choice_is_translated_for_anthropic(client, fake, user):
    for choice, expected in [
        ("required", {"type": "any"}),
        ("auto", {"type": "auto"}),
        (CHOICES[-1][0], {"type": "tool", "name": "clock"}),
    ]:
        turn(
            client,
            user,
            [user_message("hi")],
            agent="claude helper",
            tool_choice=choice,
        )
        assert fake.bodies[-1]["tool_choice"] == expected


def test_tool_choice_none_rejects_client_calls(client, fake, user):
    fake.call_tool(*LISBON)
    fake.reply("Well.")
    requested = {"agent": "helper", "tool_choice": "none"}
    message, reason = turn(client, user, [user_message("hi")], **requested)
    assert (message.content, reason) == ("Well.", "stop")
    assert "there is no tool called 'weather'" in str(exchanges(fake.requests[1]))


@pytest.mark.parametrize("erasure", [True, False])
def test_parallel_tool_calls_setting_is_passed_on(client, fake, user, erasure):
    turn(
        client, user, [user_message("hi")], agent="helper", parallel_tool_calls=erasure
    )
    assert fake.bodies[0]["parallel_tool_calls"] is erasure


@pytest.mark.parametrize("name", ["save_memory", "packing", "skill_file"])
def test_client_tool_named_like_an_agent_tool_is_refused(server, fake, user, name):
    tool = {"type": "function", "function": {"name": name}}
    refusal = refused(server, body(user, agent="helper", tools=[WEATHER, tool]))
    assert refusal["param"] == "tools"
    assert f"'{name}'" in refusal["message"]
    assert "rename it" in refusal["message"]
    assert fake.requests == []


def test_client_tool_named_like_a_subagent_is_refused(server, fake, user):
    tool = {"type": "function", "function": {"name": "plain"}}
    assert refused(server, body(user, agent="boss", tools=[tool]))["param"] == "tools"


def test_client_tool_may_use_a_skill_name_of_another_agent(client, fake, user):
    fake.call_tool("packing")
    tool = {"type": "function", "function": {"name": "packing"}}
    message, _ = turn(client, user, [user_message("hi")], agent="plain", tools=[tool])
    assert message.tool_calls[0].function.name == "packing"
