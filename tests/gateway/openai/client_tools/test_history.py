"""Exchanges with a client's tools in later requests."""

import pytest

from tests.gateway.calls import (
    body,
    plain,
    refused,
    stored,
    user_message,
)
from tests.gateway.openai.client_tools.exchange import (
    EITHER,
    HELPERS,
    LISBON,
    PACKING,
    RESENT,
    TOOLS,
    exchanges,
    id_of,
    result,
    sent_back,
    turn,
)

pytestmark = pytest.mark.database

# History.


CLIENTS = {"history": "client"}


INCOGNITO = {"memory": "incognito"}


@HELPERS
@EITHER
@pytest.mark.parametrize("metadata", [CLIENTS, INCOGNITO], ids=["client", "incognito"])
def test_client_history_may_hold_the_exchange(
    client, fake, user, agent, stream, metadata
):
    fake.reply("Let me see.", tool_calls=[PACKING, LISBON])
    fake.reply("Done.")
    more = {"agent": agent, "stream": stream, "metadata": metadata}
    history = [user_message("hi")]
    message, _ = turn(client, user, history, **more)
    history += [sent_back(message), result(message.tool_calls[0])]
    message, _ = turn(client, user, history, **more)
    assert message.content == "Done."
    found = [result for _, result in exchanges(fake.requests[1])]
    # The client's messages lack the results of the agent's own tools: what is stored of
    # the exchange has them.
    own = [] if metadata == INCOGNITO else ["packing", "Take a coat."]
    assert found == (
        ["weather", "rain"]
        if metadata == INCOGNITO
        else ["packing", "weather", *own[1:], "rain"]
    )
    assert bool(stored(user)) is (metadata == CLIENTS)


def test_incognito_result_without_its_call_is_refused(server, client, fake, user):
    fake.call_tool(*LISBON)
    more = {"agent": "helper", "metadata": INCOGNITO}
    message, _ = turn(client, user, [user_message("hi")], **more)
    answer = result(message.tool_calls[0])
    refusal = refused(server, body(user, messages=[answer], tools=TOOLS, **more))
    assert "send the assistant message with that call before it" in refusal["message"]


def test_a_result_for_another_user_is_refused(server, client, fake, user):
    fake.call_tool(*LISBON)
    message, _ = turn(client, f"{user}-a", [user_message("hi")], agent="helper")
    answer = result(message.tool_calls[0])
    more = {"messages": [answer], "agent": "helper", "tools": TOOLS}
    refusal = refused(server, body(f"{user}-b", **more))
    assert "which is not in the conversation" in refusal["message"]


def test_unanswered_call_is_dropped(client, fake, user):
    fake.reply("Let me see.", tool_calls=[PACKING, LISBON, ("clock", {})])
    message, _ = turn(client, user, [user_message("hi")], agent="helper")
    fake.reply("Half.")
    weather, _ = message.tool_calls
    message, _ = turn(client, user, [result(weather)], agent="helper")
    assert message.content == "Half."
    assert [result for _, result in exchanges(fake.requests[1])] == [
        "packing",
        "weather",
        "Take a coat.",
        "rain",
    ]


def test_client_may_ask_instead_of_answering_calls(client, fake, user):
    fake.reply("Let me see.", tool_calls=[PACKING, LISBON])
    turn(client, user, [user_message("hi")], agent="helper")
    fake.reply("Fine.")
    message, _ = turn(client, user, [user_message("Never mind.")], agent="helper")
    assert message.content == "Fine."
    assert [result for _, result in exchanges(fake.requests[1])] == [
        "packing",
        "Take a coat.",
    ]


def roles(request) -> list[str]:
    return [message["role"] for message in request.body["messages"]]


@HELPERS
@RESENT
def test_repeated_results_are_answered_again(client, fake, user, agent, resent):
    """A client that did not receive the stored reply repeats its request."""
    fake.reply("Let me see.", tool_calls=[PACKING, LISBON])
    fake.reply("Never heard.")
    fake.reply("Heard.")
    history = [user_message("hi")]
    message, _ = turn(client, user, history, agent=agent)
    history += [sent_back(message), result(message.tool_calls[0])]
    new = history if resent else history[-1:]
    for expected in ("Never heard.", "Heard."):
        message, _ = turn(client, user, new, agent=agent)
        assert message.content == expected
    first, again = fake.bodies[1:]
    assert again["messages"] == first["messages"]
    turn(client, user, [user_message("And?")], agent=agent)
    assert plain(fake.bodies[-1]["messages"][-1]["content"]) == "And?"


@HELPERS
def test_results_may_arrive_one_by_one(client, fake, user, agent):
    fake.reply("Let me see.", tool_calls=[LISBON, ("clock", {})])
    fake.reply("It rains.")
    fake.reply("At noon.")
    message, _ = turn(client, user, [user_message("hi")], agent=agent)
    weather, clock = message.tool_calls
    turn(client, user, [result(weather)], agent=agent)
    turn(client, user, [result(clock, "noon")], agent=agent)
    assert exchanges(fake.requests[2]) == [
        (weather.id, "weather"),
        (clock.id, "clock"),
        (weather.id, "rain"),
        (clock.id, "noon"),
    ]
    last = fake.bodies[2]["messages"][-1]
    assert last["role"] == ("user" if "claude" in agent else "tool")


@HELPERS
def test_result_after_another_question_is_accepted(client, fake, user, agent):
    fake.reply("Let me see.", tool_calls=[LISBON])
    fake.reply("Noon.")
    fake.reply("It rains.")
    message, _ = turn(client, user, [user_message("How is it?")], agent=agent)
    turn(client, user, [user_message("What time is it?")], agent=agent)
    turn(client, user, [result(message.tool_calls[0])], agent=agent)
    text = str(fake.bodies[2]["messages"])
    assert text.index("What time is it?") < text.index("Noon.") < text.index("rain")
    assert [result for _, result in exchanges(fake.requests[2])] == [
        "weather",
        "rain",
    ]


def test_results_and_a_question_may_come_together(client, fake, user):
    fake.call_tool(*LISBON)
    message, _ = turn(client, user, [user_message("hi")], agent="helper")
    answers = [result(message.tool_calls[0]), user_message("And there?")]
    turn(client, user, answers, agent="helper")
    assert roles(fake.requests[1])[2:] == ["assistant", "tool", "user"]


def test_incognito_exchange_may_continue_in_a_thread(client, fake, user):
    fake.call_tool(*LISBON)
    history = [user_message("How is it?")]
    message, _ = turn(client, user, history, agent="helper", metadata=INCOGNITO)
    history += [sent_back(message), result(message.tool_calls[0])]
    turn(client, user, history, agent="helper")
    assert [result for _, result in exchanges(fake.requests[1])] == [
        "weather",
        "rain",
    ]
    assert [role for role, _, _ in stored(user)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("", ""),
        ([{"type": "text", "text": "ra"}, {"type": "text", "text": "in"}], "rain"),
        ("😀" * 10, "😀" * 10),
        ('{"rain": true}', '{"rain": true}'),
    ],
)
@HELPERS
def test_result_content_is_passed_on_unchanged(
    client, fake, user, agent, content, sent
):
    fake.call_tool(*LISBON)
    message, _ = turn(client, user, [user_message("hi")], agent=agent)
    turn(client, user, [result(message.tool_calls[0], content)], agent=agent)
    assert exchanges(fake.requests[1])[1] == (id_of(agent, 0), sent)
