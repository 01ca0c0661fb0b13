"""An agent's own tools: called, answered, unseen; whatever they do."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agents import loop
from agents.config import AgentConfig
from agents.loop import Task
from core.errors import CoulisseError
from core.events import Finished, ReasoningBlock, TextDelta, ToolCallDelta
from core.messages import Message
from providers import client


@dataclass
class Tool:
    """A tool that does what a test says."""

    name: str
    do: Callable[[Mapping[str, Any]], Any] = lambda arguments: "done"
    description: str = "A tool."
    kind: str = "memory"
    target: str = ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"type": "object"}

    async def call(self, arguments: Mapping[str, Any], record) -> str:
        result = self.do(arguments)
        return await result if asyncio.iscoroutine(result) else result


LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])
EITHER = pytest.mark.parametrize("stream", [True, False])


@pytest.fixture
def take(fake):
    """Return a function that takes a turn and returns its events."""

    async def take(
        *tools,
        kind="openai",
        stream=True,
        client_tools=(),
        choice=None,
        has_format=False,
        **agent,
    ):
        fields = {"name": "a", "provider": "p", "model": "m", **agent}
        task = Task(
            AgentConfig.model_validate(fields),
            fake.provider(kind),
            [Message("user", "hi")],
            {} if choice is None else {"tool_choice": choice},
            client_tools=client_tools,
            own_tools=tools,
            stream=stream,
            has_format=has_format,
        )
        events = [event async for event in loop.run(task)]
        await client.close()
        return events

    return take


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def results(fake) -> str:
    """Return what the model was told last, on either wire."""
    return str(fake.bodies[-1]["messages"][-1])


@BOTH
@EITHER
async def test_a_call_is_answered_unseen(take, fake, kind, stream):
    fake.call_tool("add", {"a": 1})
    fake.reply("Two", ".")
    events = await take(
        Tool("add", lambda a: f"got {a['a']}"), kind=kind, stream=stream
    )
    assert text(events) == "Two."
    assert not any(isinstance(event, ToolCallDelta) for event in events)
    assert "got 1" in results(fake)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"
    assert sum(isinstance(event, Finished) for event in events) == 1


@EITHER
async def test_text_before_a_call_is_said_too(take, fake, stream):
    fake.reply("Let me see.", tool_calls=[("add", {})])
    fake.reply("Two.")
    assert text(await take(Tool("add"), stream=stream)) == "Let me see.\n\nTwo."


@EITHER
async def test_of_a_reply_with_a_format_only_the_last_text_is_said(take, fake, stream):
    fake.reply('{"a": 1}', tool_calls=[("add", {})])
    fake.reply('{"a":', " 2}")
    events = await take(Tool("add"), stream=stream, has_format=True)
    assert text(events) == '{"a": 2}'
    assert '{"a": 1}' in str(fake.bodies[-1]["messages"]).replace('\\"', '"')


async def test_parallel_calls_run_at_once_and_are_answered_in_order(take, fake):
    meeting = asyncio.Barrier(2)

    async def meet(arguments):
        await meeting.wait()
        return arguments["who"]

    fake.reply(tool_calls=[("meet", {"who": "one"}), ("meet", {"who": "two"})])
    async with asyncio.timeout(5):
        await take(Tool("meet", meet))
    answers = [m["content"] for m in fake.bodies[-1]["messages"] if m["role"] == "tool"]
    assert answers == ["one", "two"]


def refuse(arguments):
    raise CoulisseError("the shop is closed")


def crash(arguments):
    raise ZeroDivisionError("secret details")


@pytest.mark.parametrize(
    ("tool", "told"),
    [(refuse, "Error: the shop is closed"), (crash, "Error: the tool failed")],
)
async def test_a_tool_that_fails_is_an_answer(take, fake, tool, told):
    fake.call_tool("add", {})
    fake.reply("Sorry.")
    assert text(await take(Tool("add", tool))) == "Sorry."
    assert told in results(fake)
    assert "secret" not in results(fake)


async def test_a_long_result_is_cut(take, fake):
    fake.call_tool("add", {})
    await take(Tool("add", lambda arguments: "x" * 100_000))
    assert len(results(fake)) < 33_000
    assert "100000 characters" in results(fake)


async def test_a_clients_call_ends_the_turn(take, fake):
    fake.call_tool("look", {})
    events = await take(Tool("add"), client_tools=[LOOK])
    assert [e.name for e in events if isinstance(e, ToolCallDelta) if e.name] == [
        "look"
    ]
    assert events[-1].reason == "tool_calls"
    assert len(fake.requests) == 1


async def test_calls_of_both_leave_the_clients_numbered_from_zero(take, fake):
    fake.reply(tool_calls=[("add", {}), ("look", {"at": 1})])
    events = await take(Tool("add"), client_tools=[LOOK])
    pieces = [event for event in events if isinstance(event, ToolCallDelta)]
    assert {piece.index for piece in pieces} == {0}
    arguments = "".join(piece.arguments for piece in pieces)
    assert json.loads(arguments) == {"at": 1}


@BOTH
@pytest.mark.parametrize("name", ["required", "look"])
async def test_a_call_the_client_demands_is_one_of_its_own(take, fake, kind, name):
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
async def test_thinking_goes_with_the_calls_it_led_to(take, fake, stream):
    fake.reply(reasoning=["First."], tool_calls=[("add", {})])
    fake.reply(reasoning=["Then."], tool_calls=[("look", {})])
    events = await take(
        Tool("add"), kind="anthropic", client_tools=[LOOK], stream=stream
    )
    assert "First." in str(fake.bodies[-1]["messages"][-2])
    blocks = [each.block.text for each in events if isinstance(each, ReasoningBlock)]
    assert blocks == ["Then."]


async def test_a_tool_nobody_has_ends_the_turn_like_a_clients(take, fake):
    fake.call_tool("nobody", {})
    events = await take(Tool("add"))
    assert events[-1].reason == "tool_calls"


@pytest.mark.parametrize("rounds", [1, 3])
async def test_rounds_have_an_end(take, fake, rounds):
    for _ in range(rounds):
        fake.call_tool("add", {})
    fake.reply("Enough.")
    events = await take(Tool("add"), max_turns=rounds)
    assert text(events) == "Enough."
    assert len(fake.requests) == rounds + 1
    assert [body.get("tool_choice") for body in fake.bodies][-2:] == [None, "none"]


async def test_usage_is_that_of_all_rounds(take, fake):
    fake.reply("Two.")
    one = (await take())[-1].usage
    fake.call_tool("add", {})
    fake.reply("Two.")
    both = (await take(Tool("add")))[-1].usage
    assert both.input_tokens == 2 * one.input_tokens


async def test_leaving_stops_the_provider(take, fake):
    fake.call_tool("add", {})
    fake.hang("headers")
    task = asyncio.create_task(take(Tool("add")))
    await fake.until(lambda: len(fake.requests) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake.until(lambda: fake.requests[-1].aborted)
    await client.close()
