"""The client's tools next to the agent's own."""

import asyncio
import json

import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from access.users import identity
from memory.models import Fact
from testing.wires import ScriptedAnswer
from tests.gateway.calls import (
    ask,
    body,
    choices,
    frames,
    open_connection,
    plain,
    refused,
    stored,
    text_of,
    until,
    user_message,
)

pytestmark = pytest.mark.database

HOUSE = """
providers:
  openai: {api_key: sk-openai-secret, base_url: "{fake}/v1", retries: 0}
  anthropic: {api_key: sk-anthropic-secret, base_url: "{fake}", retries: 0}
agents:
  - name: helper
    provider: openai
    model: gpt-test
    preamble: You help.
    skills: [packing]
    memory_tools: true
  - name: claude helper
    provider: anthropic
    model: claude-test
    preamble: You help.
    skills: [packing]
    memory_tools: true
  - name: plain
    provider: openai
    model: gpt-test
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [plain]
"""
OWN = [
    "search_memory",
    "save_memory",
    "update_memory",
    "forget_memory",
    "packing",
    "skill_file",
]
HELPERS = pytest.mark.parametrize("agent", ["helper", "claude helper"])
EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
RESENT = pytest.mark.parametrize("resent", [False, True], ids=["new only", "resent"])

PLACE = {"type": "string"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look out of the window.",
        "parameters": {"type": "object", "properties": {"city": PLACE}},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
TOOLS = [WEATHER, CLOCK]

LISBON = ("weather", {"city": "Lisbon"})
PACKING = ("packing", {})


@pytest.fixture
def server(running, configure, tmp_path):
    folder = tmp_path / "skills/packing"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: Packs.\n---\nTake a coat.")
    configure(HOUSE)
    return running


def turn(client, user, messages, *, stream=False, **more):
    """Run a turn with the official client; return the message and finish reason."""
    request = body(user, messages=messages, **more)
    request.setdefault("tools", TOOLS)
    if not stream:
        choice = client.chat.completions.create(**request).choices[0]
        return choice.message, choice.finish_reason
    with client.chat.completions.stream(**request) as events:
        for _ in events:
            pass
        choice = events.get_final_completion().choices[0]
    return choice.message, choice.finish_reason


def result(call, content="rain"):
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def sent_back(message):
    """Return the assistant's message in the form clients keep in their history."""
    return message.model_dump(exclude_unset=True, exclude={"parsed"})


def tool_names(request) -> list[str]:
    """Return the tools in a provider request, on either wire."""
    tools = request.body.get("tools", [])
    return [tool.get("function", tool)["name"] for tool in tools]


def exchanges(request) -> list[tuple]:
    """Return the calls and results in a provider request, on either wire, in order.

    Calls are (id, name), results (id, text).
    """
    found = []
    for message in request.body["messages"]:
        for call in message.get("tool_calls") or ():
            found.append((call["id"], call["function"]["name"]))
        if message["role"] == "tool":
            found.append((message["tool_call_id"], message["content"]))
        parts = message["content"] if isinstance(message["content"], list) else ()
        for part in parts:
            if part["type"] == "tool_use":
                found.append((part["id"], part["name"]))
            if part["type"] == "tool_result":
                found.append((part["tool_use_id"], plain(part.get("content"))))
    return found


def id_of(agent, number):
    """Return the fake's id of the n-th call of a reply."""
    return f"toolu_{number}" if "claude" in agent else f"call_{number}"


# A single exchange.


@HELPERS
@EITHER
@RESENT
def test_client_tool_call_and_result_round_trip(
    client, fake, user, agent, stream, resent
):
    fake.reply("Let me look.", tool_calls=[LISBON])
    fake.reply("It rains.")
    history = [user_message("How is it in Lisbon?")]
    message, reason = turn(client, user, history, agent=agent, stream=stream)
    assert (message.content, reason) == ("Let me look.", "tool_calls")
    (call,) = message.tool_calls
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Lisbon"}
    history += [sent_back(message), result(call)]
    new = history if resent else history[-1:]
    message, reason = turn(client, user, new, agent=agent, stream=stream)
    assert (message.content, reason) == ("It rains.", "stop")
    assert not message.tool_calls
    assert exchanges(fake.requests[1]) == [(call.id, "weather"), (call.id, "rain")]
    assert [role for role, _, _ in stored(user)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@EITHER
async def test_async_client_receives_tool_calls(async_client, fake, user, stream):
    fake.call_tool(*LISBON)
    request = body(user, "hi", agent="helper", tools=TOOLS)
    if stream:
        async with async_client.chat.completions.stream(**request) as events:
            seen = [event.type async for event in events]
            choice = (await events.get_final_completion()).choices[0]
        assert "tool_calls.function.arguments.delta" in seen
        assert "tool_calls.function.arguments.done" in seen
    else:
        completion = await async_client.chat.completions.create(**request)
        choice = completion.choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert call.function.arguments == '{"city":"Lisbon"}'


async def test_parallel_clients_get_their_own_calls(async_client, fake, user):
    def answer(request):
        message = request.body["messages"][-1]
        if message["role"] == "tool":
            return ScriptedAnswer([f"seen {message['content']}"])
        return ScriptedAnswer(
            (), tool_calls=[("weather", {"city": message["content"]})]
        )

    fake.default = answer

    async def talk(city):
        requested = body(f"{user}-{city}", city, agent="helper", tools=TOOLS)
        first = await async_client.chat.completions.create(**requested)
        (call,) = first.choices[0].message.tool_calls
        requested["messages"] = [
            result(call, json.loads(call.function.arguments)["city"])
        ]
        second = await async_client.chat.completions.create(**requested)
        return second.choices[0].message.content

    cities = [f"city-{number}" for number in range(8)]
    assert await asyncio.gather(*map(talk, cities)) == [f"seen {c}" for c in cities]


class Weather(BaseModel):
    """Look out of the window."""

    city: str
    days: int = 1


def test_client_parser_reads_calls_into_models(client, fake, user):
    fake.call_tool("Weather", {"city": "Lisbon", "days": 3})
    request = body(user, "hi", agent="helper", tools=[pydantic_function_tool(Weather)])
    message = client.chat.completions.parse(**request).choices[0].message
    (call,) = message.tool_calls
    assert call.function.parsed_arguments == Weather(city="Lisbon", days=3)
    sent = fake.bodies[0]["tools"][0]["function"]
    assert (sent["name"], sent["strict"]) == ("Weather", True)
    assert sent["parameters"]["additionalProperties"] is False


def test_client_stream_helper_parses_calls(client, fake, user):
    calls = [PACKING, ("Weather", {"city": "Faro"}), ("Weather", {"city": "Porto"})]
    fake.reply("Two.", tool_calls=calls)
    request = body(user, "hi", agent="helper", tools=[pydantic_function_tool(Weather)])
    done = []
    with client.chat.completions.stream(**request) as events:
        for event in events:
            if event.type == "tool_calls.function.arguments.done":
                done.append((event.index, event.name, event.parsed_arguments.city))
        message = events.get_final_completion().choices[0].message
    assert done == [(0, "Weather", "Faro"), (1, "Weather", "Porto")]
    assert [call.function.parsed_arguments.city for call in message.tool_calls] == [
        "Faro",
        "Porto",
    ]


def test_reply_with_a_response_format_may_call_first(client, fake, user):
    fake.call_tool("Weather", {"city": "Lisbon"})
    fake.reply('{"city": "Lisbon", "days": 2}')
    more = {"tools": [pydantic_function_tool(Weather)], "response_format": Weather}
    requested = body(user, "hi", agent="helper", **more)
    message = client.chat.completions.parse(**requested).choices[0].message
    (call,) = message.tool_calls
    assert message.parsed is None
    requested["messages"] = [result(call)]
    message = client.chat.completions.parse(**requested).choices[0].message
    assert message.parsed == Weather(city="Lisbon", days=2)


# LangChain. What `ChatOpenAI(...).bind_tools([add])` of langchain-openai 1.7 sends in a
# loop by hand: `content: null`, and the arguments serialized again.

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "type": "object",
        },
    },
}


def langchain_body(user, *messages, **more):
    return {
        "model": "helper",
        "stream": False,
        "messages": [
            {"content": "Be brief.", "role": "system"},
            {"content": "3+4?", "role": "user"},
            *messages,
        ],
        "tools": [ADD],
        "user": user,
        **more,
    }


def test_langchain_manual_tool_loop_works(client, fake, user):
    fake.reply(tool_calls=[PACKING, ("add", '{"a":3,"b":4}')])
    fake.reply("7")
    first = client.chat.completions.create(**langchain_body(user)).choices[0].message
    (call,) = first.tool_calls
    function = {"name": "add", "arguments": '{"a": 3, "b": 4}'}
    back = {"type": "function", "id": call.id, "function": function}
    called = {"content": None, "role": "assistant", "tool_calls": [back]}
    answered = {"content": "7", "role": "tool", "tool_call_id": call.id}
    request = langchain_body(user, called, answered)
    last = client.chat.completions.create(**request).choices[0]
    assert (last.message.content, last.finish_reason) == ("7", "stop")
    assert exchanges(fake.requests[1]) == [
        ("call_0", "packing"),
        ("call_1", "add"),
        ("call_0", "Take a coat."),
        ("call_1", "7"),
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": "required", "parallel_tool_calls": False},
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        {"stream": True, "stream_options": {"include_usage": True}},
    ],
)
def test_langchain_bound_tools_are_accepted(server, client, fake, user, more):
    fake.call_tool("add", {"a": 3, "b": 4})
    request = langchain_body(user, **more)
    if request["stream"]:
        *read, usage, _ = frames(server, request)
        assert usage["choices"] == []
        assert usage["usage"]["total_tokens"] > 0
        assert choices(read)[-1]["finish_reason"] == "tool_calls"
    else:
        (choice,) = client.chat.completions.create(**request).choices
        assert choice.message.tool_calls[0].function.name == "add"
    assert {"tool_choice", "parallel_tool_calls"} & fake.bodies[0].keys() == {
        *({"tool_choice", "parallel_tool_calls"} & more.keys())
    }


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
def test_next_question_includes_the_whole_exchange(client, fake, user, stream):
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
    # The client's messages lack the results of the agent's own tools.
    assert [result for _, result in exchanges(fake.requests[1])] == [
        "weather",
        "rain",
    ]
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
