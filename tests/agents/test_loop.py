"""The agent loop: rounds, tool calls and the final reply."""

import json

import pytest

from agents import fallback_chain
from agents.config import AgentConfig
from core.events import (
    ReasoningBlock,
    ToolCallDelta,
    TurnFinished,
)
from providers.errors import RequestRefused
from tests.agents.loop_harness import BOTH, EITHER, LOOK, Tool, results, text


@BOTH
@EITHER
async def test_tool_call_is_answered_internally(take, fake, kind, stream):
    fake.call_tool("add", {"a": 1})
    fake.reply("Two", ".")
    events = await take(
        Tool("add", lambda a: f"got {a['a']}"), kind=kind, stream=stream
    )
    assert text(events) == "Two."
    assert not any(isinstance(event, ToolCallDelta) for event in events)
    assert "got 1" in results(fake)
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reason == "stop"
    assert sum(isinstance(event, TurnFinished) for event in events) == 1


@EITHER
async def test_text_before_a_tool_call_is_sent(take, fake, stream):
    fake.reply("Let me see.", tool_calls=[("add", {})])
    fake.reply("Two.")
    assert text(await take(Tool("add"), stream=stream)) == "Let me see.\n\nTwo."


@EITHER
async def test_formatted_reply_sends_only_the_last_text(take, fake, stream):
    fake.reply('{"a": 1}', tool_calls=[("add", {})])
    fake.reply('{"a":', " 2}")
    events = await take(Tool("add"), stream=stream, final_text_only=True)
    assert text(events) == '{"a": 2}'
    assert '{"a": 1}' in str(fake.bodies[-1]["messages"]).replace('\\"', '"')


async def test_client_tool_call_ends_the_turn(take, fake):
    fake.call_tool("look", {})
    events = await take(Tool("add"), client_tools=[LOOK])
    assert [e.name for e in events if isinstance(e, ToolCallDelta) if e.name] == [
        "look"
    ]
    assert events[-1].reason == "tool_calls"
    assert len(fake.requests) == 1


async def test_mixed_calls_number_client_calls_from_zero(take, fake):
    fake.reply(tool_calls=[("add", {}), ("look", {"at": 1})])
    events = await take(Tool("add"), client_tools=[LOOK])
    pieces = [event for event in events if isinstance(event, ToolCallDelta)]
    assert {piece.index for piece in pieces} == {0}
    arguments = "".join(piece.arguments for piece in pieces)
    assert json.loads(arguments) == {"at": 1}


@BOTH
@pytest.mark.parametrize("name", ["required", "look"])
async def test_forced_client_tool_choice_is_passed_on(take, fake, kind, name):
    function = {"type": "function", "function": {"name": name}}
    fake.call_tool("look", {})
    events = await take(
        Tool("add"),
        kind=kind,
        client_tools=[LOOK],
        choice=name if name == "required" else function,
    )
    assert events[-1].reason == "tool_calls"
    assert "add" not in str(fake.bodies[-1]["tools"])
    assert name == "required" or name in str(fake.bodies[-1]["tool_choice"])


@EITHER
async def test_reasoning_is_sent_with_its_calls(take, fake, stream):
    fake.reply(reasoning=["First."], tool_calls=[("add", {})])
    fake.reply(reasoning=["Then."], tool_calls=[("look", {})])
    events = await take(
        Tool("add"), kind="anthropic", client_tools=[LOOK], stream=stream
    )
    assert "First." in str(fake.bodies[-1]["messages"][-2])
    blocks = [each.block.text for each in events if isinstance(each, ReasoningBlock)]
    assert blocks == ["Then."]


@EITHER
@pytest.mark.parametrize("client_tools", [(), (LOOK,)])
async def test_unknown_tool_returns_an_error_result(take, fake, stream, client_tools):
    fake.call_tool("nobody", {})
    fake.reply("Then not.")
    events = await take(Tool("add"), client_tools=client_tools, stream=stream)
    assert text(events) == "Then not."
    assert events[-1].reason == "stop"
    assert not any(isinstance(event, ToolCallDelta) for event in events)
    assert "there is no tool called 'nobody'; available tools: add" in results(fake)


async def test_agent_without_tools_answers_a_call(take, fake):
    fake.call_tool("nobody", {})
    fake.reply("Then not.")
    assert text(await take()) == "Then not."
    assert "available tools: none" in results(fake)


@BOTH
@EITHER
async def test_own_calls_beside_client_calls_are_kept(take, fake, kind, stream):
    fake.reply("First", tool_calls=[("add", {"a": 1})])
    fake.reply("Then", tool_calls=[("add", {"a": 2}), ("look", {"at": 1})])
    tool = Tool("add", lambda a: f"got {a['a']}")
    events = await take(tool, client_tools=[LOOK], kind=kind, stream=stream)
    assert len(fake.requests) == 2
    assert text(events) == "First\n\nThen"
    assert events[-1].reason == "tool_calls"
    messages = [
        (m.role, m.text, [c.name for c in m.tool_calls]) for m in exchange(events)
    ]
    assert messages == [
        ("assistant", "First", ["add"]),
        ("tool", "got 1", []),
        ("assistant", "Then", ["add", "look"]),
        ("tool", "got 2", []),
    ]


async def test_client_call_after_own_calls_keeps_them(take, fake):
    fake.call_tool("add", {})
    fake.call_tool("look", {})
    events = await take(Tool("add"), client_tools=[LOOK])
    assert [message.role for message in exchange(events)] == [
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize("call", ["look", None])
async def test_reply_without_own_calls_has_no_exchange(take, fake, call):
    if call:
        fake.call_tool(call, {})
    assert exchange(await take(Tool("add"), client_tools=[LOOK])) == ()


def exchange(events):
    return events[-1].exchange


async def test_tool_choice_none_keeps_the_agents_own_tools(take, fake):
    fake.call_tool("add", {})
    fake.reply("Two.")
    events = await take(Tool("add"), client_tools=[LOOK], choice="none")
    assert text(events) == "Two."
    assert [tool["function"]["name"] for tool in fake.bodies[0]["tools"]] == ["add"]
    assert "tool_choice" not in fake.bodies[0]


async def test_tool_choice_none_is_sent_without_own_tools(take, fake):
    await take(client_tools=[LOOK], choice="none")
    assert fake.bodies[0]["tool_choice"] == "none"
    assert fake.bodies[0]["tools"]


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


async def test_image_is_described_to_models_without_vision(take, fake):
    fake.call_tool("draw", {})
    fake.fail(400, "no image support")
    fake.reply("I see nothing.")
    drawn = [{"type": "text", "text": "Here."}, PICTURE]
    events = await take(Tool("draw", lambda arguments: drawn))
    assert text(events) == "I see nothing."
    assert "Here." in str(fake.bodies[-1]["messages"])
    assert "image removed: this model does not accept images" in str(fake.bodies[-1])
    assert "aGk=" in str(fake.bodies[-2])


async def test_other_refusals_are_raised(take, fake):
    fake.fail(400, "too long")
    with pytest.raises(RequestRefused):
        await take(Tool("add"))
    assert len(fake.requests) == 1


async def test_call_despite_tool_choice_none_is_not_executed(take, fake):
    created = []
    fake.call_tool("add", {})
    fake.call_tool("add", {})
    events = await take(Tool("add", lambda a: created.append(1) or "done"), max_turns=1)
    assert created == [1]
    assert events[-1].reason == "length"


@pytest.mark.parametrize("rounds", [1, 3])
async def test_rounds_are_limited(take, fake, rounds):
    for _ in range(rounds):
        fake.call_tool("add", {})
    fake.reply("Enough.")
    events = await take(Tool("add"), max_turns=rounds)
    assert text(events) == "Enough."
    assert len(fake.requests) == rounds + 1
    assert [body.get("tool_choice") for body in fake.bodies][-2:] == [None, "none"]


async def test_eight_rounds_are_the_default(take, fake):
    for _ in range(9):
        fake.call_tool("add", {})
    done = []
    events = await take(Tool("add", lambda a: done.append(1) or "done"))
    # The ninth reply is the last, whatever it asks for.
    assert (len(done), len(fake.requests)) == (8, 9)
    assert events[-1].reason == "length"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"seed": 1}, {"max_tokens": 50, "seed": 1}),
    ],
)
def test_aliased_parameters_are_not_both_sent(asked, expected):
    agent = AgentConfig(name="a", provider="p", model="m", max_tokens=50)
    assert fallback_chain.merge_parameters(agent.parameters, asked) == expected


async def test_endless_calls_end_without_an_answer(take, fake):
    for _ in range(2):
        fake.call_tool("add", {})
    events = await take(Tool("add"), max_turns=1)
    assert (events[-1].reason, text(events)) == ("length", "")
