"""Records and usage of model calls and tool calls."""

import asyncio
import json
from contextlib import aclosing

import pytest

from agents import fallback_chain, loop
from agents.config import AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from core.errors import Upstream
from core.events import (
    ReasoningDelta,
    TextDelta,
    Usage,
)
from core.messages import Message
from core.trace import ModelCall
from providers import client
from providers.errors import RequestRefused
from tests.agents.loop_harness import BOTH, EITHER, LOOK, Tool, refuse


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
        "p",
        "m",
        "tool_calls",
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


async def test_refused_call_is_recorded(take, fake):
    record = []
    fake.fail(400, "too long")
    with pytest.raises(RequestRefused):
        await take(record=record)
    assert "too long" in record[0].error
    assert record[0].usage is None


async def test_usage_sums_all_rounds(take, fake):
    fake.reply("Two.")
    one = (await take())[-1].usage
    fake.call_tool("add", {})
    fake.reply("Two.")
    usage = (await take(Tool("add")))[-1].usage
    assert usage.input_tokens == 2 * one.input_tokens


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


async def cancelled_call(take_one, fake, kind, heard) -> ModelCall:
    """Run a turn up to an event of this kind, cancel it, and return the model call."""
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
    """Return a function that builds a run of an agent without tools."""

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
    call = await cancelled_call(one, fake, kind, TextDelta)
    assert (call.seconds, call.error, call.finish_reason) == (None, None, "")
    assert call.usage.output_tokens > 0


@BOTH
async def test_cancelled_reasoning_is_charged(one, fake, kind):
    fake.reply("Yes.", reasoning=("Let me think. ", "Well"), hang="mid_stream")
    call = await cancelled_call(one, fake, kind, ReasoningDelta)
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
        await take(record=record, rescue="off")
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


async def test_usage_excludes_earlier_calls(take, fake):
    before = ModelCall("a", "p", "m", usage=Usage(1000, 1000))
    events = await take(record=[before])
    assert events[-1].usage == Usage(7, 3)
