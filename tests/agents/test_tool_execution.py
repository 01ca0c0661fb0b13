"""Execution of the agent's own tools."""

import asyncio

import pytest

from agents import tool_execution
from core.errors import CoulisseError
from core.events import (
    HandoffStarted,
    Heartbeat,
    TextDelta,
)
from core.messages import ToolCall
from tests.agents.loop_harness import Tool, refuse, results, text


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


def crash(arguments):
    raise ZeroDivisionError("secret details")


@pytest.mark.parametrize(
    ("tool", "expected"),
    [(refuse, "Error: the shop is closed"), (crash, "Error: the tool failed")],
)
async def test_failed_tool_returns_an_error_result(take, fake, tool, expected):
    fake.call_tool("add", {})
    fake.reply("Sorry.")
    assert text(await take(Tool("add", tool))) == "Sorry."
    assert expected in results(fake)
    assert "secret" not in results(fake)


async def test_long_result_is_truncated(take, fake):
    fake.call_tool("add", {})
    await take(Tool("add", lambda arguments: "x" * 100_000))
    assert len(results(fake)) < 33_000
    assert "100000 characters" in results(fake)


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
    created = []
    fake.reply(tool_calls=[("add", {"a": n}) for n in range(70)])
    fake.reply("Done.")
    await take(Tool("add", lambda a: created.append(a["a"]) or "done"))
    assert sorted(created) == list(range(64))
    assert "the limit is 64" in results(fake)


async def test_results_of_one_round_share_the_size_limit(take, fake):
    fake.reply(tool_calls=[("add", {})] * 40)
    await take(Tool("add", lambda arguments: "x" * 100_000))
    contents = [
        m["content"] for m in fake.bodies[-1]["messages"] if m["role"] == "tool"
    ]
    assert sum(map(len, contents)) < 140_000


async def test_unserialisable_result_is_sanitised(take, fake):
    fake.call_tool("add", {})
    fake.reply("Two.")
    assert text(await take(Tool("add", lambda arguments: "a\ud800b"))) == "Two."
    assert "a?b" in results(fake)


async def test_self_cancelled_tool_has_failed(take, fake):
    def give_up(arguments):
        raise asyncio.CancelledError

    fake.call_tool("add", {})
    fake.reply("Sorry.")
    assert text(await take(Tool("add", give_up))) == "Sorry."


async def test_running_tools_are_limited(take, fake):
    running, peak = 0, 0

    async def work():
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.001)
        running -= 1
        return "done"

    fake.reply(tool_calls=[("add", {})] * (2 * tool_execution.MAX_CONCURRENT))
    fake.reply("Done.")
    await take(Tool("add", lambda arguments: work()))
    assert peak == tool_execution.MAX_CONCURRENT


async def test_cancelled_tool_is_awaited(take, fake):
    started, ended = asyncio.Event(), asyncio.Event()

    async def work():
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    fake.call_tool("add", {})
    task = asyncio.create_task(take(Tool("add", lambda arguments: work())))
    await started.wait()
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
    contents = tool_execution.truncate_result(parts, 12)
    assert [part["text"].split("\n")[0] for part in contents] == ["x" * 8, "x" * 4, ""]


async def test_every_handoff_is_announced(take, fake):
    fake.reply(tool_calls=[("one", {}), ("two", {}), ("add", {})])
    fake.reply("Done.")
    agents = [Tool(name, kind="subagent", target=name) for name in ("one", "two")]
    events = await take(*agents, Tool("add"))
    asked = [event.agent for event in events if isinstance(event, HandoffStarted)]
    assert asked == ["one", "two"]


def nested(depth: int) -> ToolCall:
    return ToolCall("call_1", "echo", '{"a":' * depth + "1" + "}" * depth)


def test_arguments_may_be_nested():
    assert tool_execution.parse_arguments(nested(64))


@pytest.mark.parametrize("depth", [65, 400])
def test_too_deeply_nested_arguments_are_a_tool_error(depth):
    with pytest.raises(CoulisseError, match="nested more than 64 deep"):
        tool_execution.parse_arguments(nested(depth))
