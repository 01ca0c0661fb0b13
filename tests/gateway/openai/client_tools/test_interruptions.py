"""Disconnects, failures and invalid calls."""

import openai
import pytest

from tests.gateway.calls import (
    ask,
    body,
    choices,
    frames,
    open_connection,
    refused,
    stored,
    until,
    user_message,
)
from tests.gateway.openai.client_tools.exchange import (
    LISBON,
    PACKING,
    TOOLS,
    exchanges,
    turn,
)

pytestmark = pytest.mark.database

# Disconnects.


def test_client_disconnect_during_a_call_keeps_thread_usable(
    server, client, fake, user
):
    fake.reply("One. ", tool_calls=[PACKING, LISBON], hang="mid_stream")
    request = body(user, agent="helper", tools=TOOLS, stream=True)
    with open_connection(server, request) as caller:
        caller.read_until("One.")
    until(lambda: stored(user))
    fake.reply("Still here.")
    assert ask(client, user, "Hello?", agent="helper", tools=TOOLS)
    assert [m["role"] for m in fake.bodies[-1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_client_disconnect_during_an_own_call_keeps_thread_usable(
    server, client, fake, user
):
    calls = [("plain", {"message": "Think."}), LISBON]
    fake.reply("One. ", tool_calls=calls)
    fake.hang("headers")
    request = body(user, agent="boss", tools=TOOLS, stream=True)
    with open_connection(server, request) as caller:
        caller.read_until("weather")
        fake.wait(lambda: len(fake.requests) == 2)
    fake.wait(lambda: fake.requests[1].aborted)
    until(lambda: stored(user))
    fake.reply("Still here.")
    assert ask(client, user, "Hello?", agent="boss", tools=TOOLS)
    assert exchanges(fake.requests[-1]) == []


def test_provider_failure_after_own_calls_keeps_thread_usable(client, fake, user):
    fake.call_tool(*PACKING)
    fake.fail(500)
    with pytest.raises(openai.InternalServerError):
        turn(client, user, [user_message("hi")], agent="helper")
    fake.reply("Fine.")
    message, _ = turn(client, user, [user_message("hi")], agent="helper")
    assert message.content == "Fine."


def test_reply_without_valid_calls_finishes_with_stop(server, client, fake, user):
    fake.call_tool("", {})
    fake.call_tool("", {})
    whole = ask(client, user, agent="plain")
    assert whole.choices[0].finish_reason == "stop"
    read = frames(server, body(user, agent="plain"))
    assert choices(read)[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"description": "x" * 100_000}, "more than 100,000: shorten"),
        ({"properties": {"a": {"pattern": "a" * 1001}}}, "1,001 characters"),
        ({"enum": [[]] * 30_000}, "more than 20,000 values"),
    ],
)
def test_schema_of_arguments_beyond_a_limit_is_refused(
    server, fake, user, schema, message
):
    functions = [{"name": "a"}, {"name": "b", "parameters": schema}]
    tools = [{"type": "function", "function": each} for each in functions]
    error = refused(server, body(user, tools=tools))
    assert error["param"] == "tools[1].function.parameters"
    assert message in error["message"]
    assert fake.requests == []
