"""A call of a client's tool and its result."""

import asyncio
import json

import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from testing.wires import ScriptedAnswer
from tests.gateway.calls import (
    body,
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
    result,
    sent_back,
    turn,
)

pytestmark = pytest.mark.database

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
