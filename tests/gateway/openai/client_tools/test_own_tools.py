"""Calls of the client's tools and of the agent's."""

import pytest

from access.users import identity
from memory.models import Fact
from tests.gateway.calls import (
    body,
    choices,
    frames,
    text_of,
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
    tool_names,
    turn,
)

pytestmark = pytest.mark.database

# Tools of the client and of the agent.


SAVE = ("save_memory", {"content": "The user goes to Lisbon."})


def facts_of(user) -> int:
    return Fact.objects.filter(user_id=identity.derive_user_id(user)).count()


@HELPERS
@EITHER
@RESENT
def test_own_and_client_calls_mix_in_one_reply(
    client, fake, user, agent, stream, resent
):
    fake.reply("Let me see.", tool_calls=[SAVE, LISBON, PACKING])
    fake.reply("Take a coat.")
    history = [user_message("What do I need?")]
    message, reason = turn(client, user, history, agent=agent, stream=stream)
    (call,) = message.tool_calls
    assert (call.function.name, reason) == ("weather", "tool_calls")
    assert call.id == id_of(agent, 1)
    assert len(fake.requests) == 1
    assert facts_of(user) == 1
    history += [sent_back(message), result(call)]
    new = history if resent else history[-1:]
    message, reason = turn(client, user, new, agent=agent, stream=stream)
    assert (message.content, reason) == ("Take a coat.", "stop")
    results_by_call = dict(exchanges(fake.requests[1])[3:])
    assert results_by_call.pop(id_of(agent, 0)).startswith('{"id":"mem_')
    assert results_by_call == {id_of(agent, 1): "rain", id_of(agent, 2): "Take a coat."}
    assert [n for _, n in exchanges(fake.requests[1])[:3]] == [
        "save_memory",
        "weather",
        "packing",
    ]
    assert facts_of(user) == 1


@HELPERS
@EITHER
@RESENT
def test_own_calls_may_precede_client_calls(client, fake, user, agent, stream, resent):
    fake.reply("First this.", tool_calls=[PACKING])
    fake.reply("And now?", tool_calls=[LISBON])
    fake.reply("Done.")
    history = [user_message("What do I need?")]
    message, _ = turn(client, user, history, agent=agent, stream=stream)
    assert message.content == "First this.\n\nAnd now?"
    (call,) = message.tool_calls
    history += [sent_back(message), result(call)]
    new = history if resent else history[-1:]
    message, _ = turn(client, user, new, agent=agent, stream=stream)
    assert message.content == "Done."
    assert [result for _, result in exchanges(fake.requests[2])] == [
        "packing",
        "Take a coat.",
        "weather",
        "rain",
    ]


@EITHER
def test_subagent_call_may_accompany_client_call(client, fake, user, stream):
    fake.reply("One.", tool_calls=[("plain", {"message": "Think."}), LISBON])
    fake.reply("Thought.")
    fake.reply("Two.")
    message, _ = turn(client, user, [user_message("hi")], agent="boss", stream=stream)
    assert message.content == "One."
    (call,) = message.tool_calls
    message, _ = turn(client, user, [result(call)], agent="boss", stream=stream)
    assert message.content == "Two."
    # The subagent does not get the client's tools.
    assert tool_names(fake.requests[1]) == []
    assert [result for _, result in exchanges(fake.requests[2])] == [
        "plain",
        "weather",
        "Thought.",
        "rain",
    ]


@EITHER
def test_next_question_has_what_the_client_sent(client, fake, user, stream):
    fake.reply("One.", tool_calls=[PACKING, LISBON])
    fake.reply("Two.")
    fake.reply("Three.")
    history = [user_message("What do I need?")]
    message, _ = turn(client, user, history, agent="helper", stream=stream)
    history += [sent_back(message), result(message.tool_calls[0])]
    message, _ = turn(client, user, history, agent="helper", stream=stream)
    history += [sent_back(message), user_message("Sure?")]
    message, _ = turn(client, user, history, agent="helper", stream=stream)
    assert [m["role"] for m in fake.bodies[2]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_client_may_call_tools_over_several_rounds(client, fake, user):
    """A client that answers its calls, with calls of the agent's tools in between."""
    calls = [[LISBON, ("clock", {})], [PACKING], [("clock", {})], [PACKING, LISBON]]
    for number, each in enumerate(calls):
        fake.reply(f"{number}.", tool_calls=each)
    fake.reply("Done.")
    history, requested = [user_message("Go.")], 0
    message, _ = turn(client, user, history, agent="helper")
    while message.tool_calls:
        requested += len(message.tool_calls)
        history.append(sent_back(message))
        history += [result(call) for call in message.tool_calls]
        message, _ = turn(client, user, history, agent="helper")
    assert (message.content, requested) == ("Done.", 4)
    assert [result for _, result in exchanges(fake.requests[-1])] == [
        "weather",
        "clock",
        "rain",
        "rain",
        "packing",
        "Take a coat.",
        "clock",
        "rain",
        "packing",
        "weather",
        "Take a coat.",
        "rain",
    ]


@EITHER
def test_unknown_tool_is_answered_by_the_server(client, fake, user, stream):
    fake.reply(tool_calls=[("teleport", {}), LISBON])
    fake.reply("Done.")
    message, _ = turn(client, user, [user_message("hi")], agent="plain", stream=stream)
    (call,) = message.tool_calls
    assert call.function.name == "weather"
    message, _ = turn(client, user, [result(call)], agent="plain", stream=stream)
    assert message.content == "Done."
    results_by_call = dict(exchanges(fake.requests[1])[2:])
    assert "there is no tool called 'teleport'" in results_by_call["call_0"]
    assert results_by_call["call_1"] == "rain"


def test_broken_arguments_reach_the_client_unchanged(client, fake, user):
    fake.call_tool("weather", '{"city": ')
    fake.reply("Sorry.")
    message, _ = turn(client, user, [user_message("hi")], agent="helper")
    (call,) = message.tool_calls
    assert call.function.arguments == '{"city": '
    answer = result(call, "Error: invalid JSON")
    history = [user_message("hi"), sent_back(message), answer]
    message, _ = turn(client, user, history, agent="helper")
    assert message.content == "Sorry."


# On the wire.


def test_stream_shows_only_client_calls(server, fake, user):
    calls = [PACKING, LISBON, ("teleport", {}), ("clock", {})]
    fake.reply("Let me see.", tool_calls=calls)
    read = frames(server, body(user, agent="helper", tools=TOOLS))
    deltas = [choice["delta"] for choice in choices(read)]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
    first = [piece for piece in pieces if "id" in piece]
    assert [(p["index"], p["id"], p["function"]["name"]) for p in first] == [
        (0, "call_1", "weather"),
        (1, "call_3", "clock"),
    ]
    assert all(piece["type"] == "function" for piece in first)
    later = [piece for piece in pieces if "id" not in piece]
    assert all(piece.keys() == {"index", "function"} for piece in later)
    assert all(piece["function"].keys() == {"arguments"} for piece in later)
    assert text_of(read) == "Let me see."
    assert choices(read)[-1]["finish_reason"] == "tool_calls"
    assert choices(read)[-1]["delta"] == {}


@EITHER
def test_usage_sums_all_rounds(client, fake, user, stream):
    fake.call_tool(*PACKING)
    fake.call_tool(*LISBON)
    request = body(user, agent="helper", tools=TOOLS)
    if stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
        *_, last = client.chat.completions.create(**request)
    else:
        last = client.chat.completions.create(**request)
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (14, 6)
