"""An agent's own tools: called, answered, unseen; whatever they do."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from agents import fallback_chain, loop, tool_execution
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from core.errors import CoulisseError, Upstream
from core.events import (
    HandoffStarted,
    Heartbeat,
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Message
from core.trace import ModelCall
from providers import client
from providers.errors import RequestRefused


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
        final_text_only=False,
        record=None,
        **agent,
    ):
        fields = {"name": "a", "provider": "p", "model": "m", **agent}
        config = AgentConfig.model_validate(fields)
        task = AgentRun(
            config,
            FallbackChain([fallback_chain.primary_model(config, fake.provider(kind))]),
            [Message("user", "hi")],
            {} if choice is None else {"tool_choice": choice},
            client_tools=client_tools,
            own_tools=tools,
            stream=stream,
            final_text_only=final_text_only,
            record=[] if record is None else record,
        )
        try:
            return [event async for event in loop.run(task)]
        finally:
            await client.close()

    return take


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def results(fake) -> str:
    """Return what the model was told last, on either wire."""
    return str(fake.bodies[-1]["messages"][-1])


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


async def test_parallel_calls_run_at_once_with_ordered_results(take, fake):
    meeting = asyncio.Barrier(2)

    async def meet(arguments):
        await meeting.wait()
        return arguments["who"]

    fake.reply(tool_calls=[("meet", {"who": "one"}), ("meet", {"who": "two"})])
    async with asyncio.timeout(60):
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
async def test_failed_tool_returns_an_error_result(take, fake, tool, told):
    fake.call_tool("add", {})
    fake.reply("Sorry.")
    assert text(await take(Tool("add", tool))) == "Sorry."
    assert told in results(fake)
    assert "secret" not in results(fake)


async def test_long_result_is_truncated(take, fake):
    fake.call_tool("add", {})
    await take(Tool("add", lambda arguments: "x" * 100_000))
    assert len(results(fake)) < 33_000
    assert "100000 characters" in results(fake)


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
    said = [(m.role, m.text, [c.name for c in m.tool_calls]) for m in exchange(events)]
    assert said == [
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
        *("assistant", "tool", "assistant")
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


async def test_slow_tool_emits_heartbeats(take, fake, monkeypatch):
    monkeypatch.setattr(tool_execution, "HEARTBEAT_SECONDS", 0.01)
    fake.call_tool("add", {})
    fake.reply("Two.")
    looks, enough, are_in = [], asyncio.Event(), tool_execution.ToolExecution.wait

    async def look(calls):
        looks.append(await are_in(calls))
        if looks == [False, False]:
            enough.set()
        return looks[-1]

    async def wait(arguments):
        await enough.wait()
        return "done"

    monkeypatch.setattr(tool_execution.ToolExecution, "wait", look)
    events = await take(Tool("add", wait))
    assert sum(isinstance(event, Heartbeat) for event in events) >= 2
    assert looks[-1]


async def test_handoff_is_announced_before_it_begins(take, fake):
    fake.reply("Wait.", tool_calls=[("critic", {}), ("add", {})])
    fake.reply("Done.")
    events = await take(Tool("critic", kind="subagent", target="critic"), Tool("add"))
    assert [e.agent for e in events if isinstance(e, HandoffStarted)] == ["critic"]
    kinds = [type(event) for event in events]
    assert kinds.index(TextDelta) < kinds.index(HandoffStarted)


async def test_calls_above_the_limit_are_refused(take, fake):
    made = []
    fake.reply(tool_calls=[("add", {"a": n}) for n in range(70)])
    fake.reply("Done.")
    await take(Tool("add", lambda a: made.append(a["a"]) or "done"))
    assert sorted(made) == list(range(64))
    assert "the limit is 64" in results(fake)


async def test_results_of_one_round_share_the_size_limit(take, fake):
    fake.reply(tool_calls=[("add", {})] * 40)
    await take(Tool("add", lambda arguments: "x" * 100_000))
    told = [m["content"] for m in fake.bodies[-1]["messages"] if m["role"] == "tool"]
    assert sum(map(len, told)) < 140_000


async def test_unserialisable_result_is_sanitised(take, fake):
    fake.call_tool("add", {})
    fake.reply("Two.")
    assert text(await take(Tool("add", lambda arguments: "a\ud800b"))) == "Two."
    assert "a?b" in results(fake)


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


@EITHER
async def test_every_call_is_recorded(take, fake, stream):
    record = []
    fake.reply(tool_calls=[("add", {"a": 1}), ("shut", {})])
    fake.reply(tool_calls=[("look", {})])
    await take(
        Tool("add"),
        Tool("shut", refuse),
        client_tools=[LOOK],
        record=record,
        stream=stream,
    )
    first, add, shut, second, look = record
    assert isinstance(first, ModelCall)
    assert (first.provider, first.model, first.finish_reason) == (
        *("p", "m", "tool_calls"),
    )
    assert first.usage is not None
    assert first.seconds is not None
    assert (add.name, add.kind, add.result, add.error) == (
        "add",
        "memory",
        "done",
        None,
    )
    assert json.loads(add.arguments) == {"a": 1}
    assert (shut.result, shut.error) == (None, "the shop is closed")
    assert second.usage == first.usage
    assert (look.kind, look.result, look.seconds) == ("client", None, None)


async def test_cancelled_calls_are_recorded_as_cancelled(take, fake):
    record, begun = [], asyncio.Event()

    async def hang(arguments):
        begun.set()
        await asyncio.Event().wait()

    fake.call_tool("add", {})
    task = asyncio.create_task(take(Tool("add", hang), record=record))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (record[1].result, record[1].error, record[1].seconds) == (None,) * 3
    assert len(asyncio.all_tasks()) == 1
    await client.close()


async def test_self_cancelled_tool_has_failed(take, fake):
    def give_up(arguments):
        raise asyncio.CancelledError

    fake.call_tool("add", {})
    fake.reply("Sorry.")
    assert text(await take(Tool("add", give_up))) == "Sorry."


async def test_refused_call_is_recorded(take, fake):
    record = []
    fake.fail(400, "too long")
    with pytest.raises(RequestRefused):
        await take(record=record)
    assert "too long" in record[0].error
    assert record[0].usage is None


async def test_call_despite_tool_choice_none_is_not_executed(take, fake):
    made = []
    fake.call_tool("add", {})
    fake.call_tool("add", {})
    events = await take(Tool("add", lambda a: made.append(1) or "done"), max_turns=1)
    assert made == [1]
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


async def test_usage_sums_all_rounds(take, fake):
    fake.reply("Two.")
    one = (await take())[-1].usage
    fake.call_tool("add", {})
    fake.reply("Two.")
    both = (await take(Tool("add")))[-1].usage
    assert both.input_tokens == 2 * one.input_tokens


async def test_disconnect_stops_the_provider(take, fake):
    fake.call_tool("add", {})
    fake.hang("headers")
    task = asyncio.create_task(take(Tool("add")))
    await fake.until(lambda: len(fake.requests) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake.until(lambda: fake.requests[-1].aborted)
    await client.close()


async def broken_off(take_one, fake, kind, heard) -> ModelCall:
    """Take a turn up to an event of this kind, leave, and return the model call."""
    record = []
    async with aclosing(loop.run(take_one(kind, record))) as events:
        async for event in events:
            if isinstance(event, heard):
                break
    await client.close()
    (call,) = record
    return call


@pytest.fixture
def one(fake):
    """Return a function that makes the task of an agent without tools."""

    def one(kind, record):
        agent = AgentConfig(name="a", provider="p", model="m")
        asked = [Message("user", "hi")]
        alone = FallbackChain(
            [fallback_chain.primary_model(agent, fake.provider(kind))]
        )
        return AgentRun(agent, alone, asked, {}, record=record)

    return one


@BOTH
async def test_cancelled_call_has_no_duration(one, fake, kind):
    fake.hang("mid_stream", "Once ", "upon ")
    call = await broken_off(one, fake, kind, TextDelta)
    assert (call.seconds, call.error, call.finish_reason) == (None, None, "")
    assert call.usage.output_tokens > 0


@BOTH
async def test_cancelled_reasoning_is_charged(one, fake, kind):
    fake.reply("Yes.", reasoning=("Let me think. ", "Well"), hang="mid_stream")
    call = await broken_off(one, fake, kind, ReasoningDelta)
    assert call.usage.input_tokens > 0
    assert call.usage.output_tokens > 0


@BOTH
@EITHER
async def test_reply_without_text_or_usage_is_charged(take, fake, kind, stream):
    fake.reply(usage=None)
    events = await take(kind=kind, stream=stream)
    assert events[-1].usage.input_tokens > 0


async def test_failed_call_has_a_duration(take, fake):
    record = []
    fake.cut("mid_stream", "Once ", "upon ")
    with pytest.raises(Upstream):
        await take(record=record)
    assert record[0].seconds > 0
    assert record[0].usage.output_tokens > 0


async def test_internal_error_is_recorded_by_its_type_only(take, fake, monkeypatch):
    async def fail(*arguments):
        raise RuntimeError("sk-secret")
        yield

    record = []
    monkeypatch.setattr(client, "run", fail)
    with pytest.raises(RuntimeError):
        await take(record=record)
    assert record[0].error == "RuntimeError"


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


async def test_usage_excludes_earlier_calls(take, fake):
    before = ModelCall("a", "p", "m", usage=Usage(1000, 1000))
    events = await take(record=[before])
    assert events[-1].usage == Usage(7, 3)


async def test_running_tools_are_limited(take, fake):
    running, most = 0, 0

    async def work():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return "done"

    fake.reply(tool_calls=[("add", {})] * (2 * tool_execution.MAX_AT_ONCE))
    fake.reply("Done.")
    await take(Tool("add", lambda arguments: work()))
    assert most == tool_execution.MAX_AT_ONCE


async def test_cancelled_tool_is_awaited(take, fake):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    fake.call_tool("add", {})
    task = asyncio.create_task(take(Tool("add", lambda arguments: work())))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_record_keeps_the_untruncated_result(take, fake):
    record, long = [], "x" * (2 * tool_execution.MAX_RESULT_LENGTH)
    fake.call_tool("add", {})
    fake.reply("Done.")
    await take(Tool("add", lambda arguments: long), record=record)
    assert record[1].result == long
    assert long not in results(fake)


def test_result_parts_share_the_size_limit():
    parts = [{"type": "text", "text": "x" * 8} for _ in range(3)]
    told = tool_execution.truncate_result(parts, 12)
    assert [part["text"].split("\n")[0] for part in told] == ["x" * 8, "x" * 4, ""]


async def test_every_handoff_is_announced(take, fake):
    fake.reply(tool_calls=[("one", {}), ("two", {}), ("add", {})])
    fake.reply("Done.")
    agents = [Tool(name, kind="subagent", target=name) for name in ("one", "two")]
    events = await take(*agents, Tool("add"))
    asked = [event.agent for event in events if isinstance(event, HandoffStarted)]
    assert asked == ["one", "two"]
