"""What LangChain sends in a loop by hand."""

import pytest

from tests.gateway.calls import (
    choices,
    frames,
)
from tests.gateway.openai.client_tools.exchange import PACKING, exchanges

pytestmark = pytest.mark.database

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
