"""Fallbacks in later rounds of a turn, and reasoning of other models."""

import pytest

from agents.subagents import Subagent
from core import trace
from core.events import (
    ReasoningBlock,
    ReasoningDelta,
    ToolCallDelta,
)
from core.messages import Message, Reasoning, ToolCall
from providers import client
from tests.agents.fallback_harness import EITHER, Stage, text
from tests.agents.test_loop import Tool
from tests.agents.test_subagents import answering

# Rounds.


@EITHER
async def test_answering_fallback_serves_later_rounds(stage, fake, spare, stream):
    fake.fail(500)
    spare.call_tool("add", {})
    spare.reply("Two.")
    assert text(await stage.take(Tool("add"), stream=stream)) == "Two."
    assert len(fake.requests) == 1
    assert len(spare.requests) == 2


@EITHER
async def test_later_round_can_fall_back(stage, fake, spare, stream):
    fake.reply("Let me see.", tool_calls=[("add", {"a": 1})])
    fake.fail(500)
    spare.reply("Two.")
    events = await stage.take(Tool("add", lambda a: "got it"), stream=stream)
    assert text(events) == "Let me see.\n\nTwo."
    assert "got it" in str(spare.bodies[0]["messages"])


async def test_after_the_last_fallback_own_model_is_tried_again(stage, fake, spare):
    fake.fail(500)
    spare.call_tool("add", {})
    spare.fail(500)
    fake.reply("Back again.")
    assert text(await stage.take(Tool("add"))) == "Back again."
    assert stage.calls == [
        ("first/m1", False),
        ("spare/m2", True),
        ("spare/m2", False),
        ("first/m1", True),
    ]


async def test_incomplete_tool_call_is_not_executed(stage, fake, spare):
    created = []
    fake.reply(tool_calls=[("add", {"from": "first"})], unterminated=True)
    spare.call_tool("add", {"from": "spare"})
    spare.reply("Done.")
    tool = Tool("add", lambda arguments: created.append(arguments["from"]) or "done")
    assert text(await stage.take(tool)) == "Done."
    assert created == ["spare"]


async def test_client_call_is_sent_after_an_incomplete_call(stage, fake, spare):
    look = {"type": "function", "function": {"name": "look", "parameters": {}}}
    fake.reply(tool_calls=[("add", {})], unterminated=True)
    spare.call_tool("look", {})
    events = await stage.take(Tool("add"), client_tools=[look])
    names = [e.name for e in events if isinstance(e, ToolCallDelta) and e.name]
    assert names == ["look"]


async def test_usage_of_failed_calls_is_counted(stage, fake, spare):
    fake.reply(tool_calls=[("add", {"a": "x" * 400})], unterminated=True)
    spare.reply("Done.")
    events = await stage.take(Tool("add"))
    assert stage.record[0].usage.output_tokens > 0
    both = stage.record[0].usage + stage.record[1].usage
    assert events[-1].usage == both


async def test_incomplete_hidden_text_is_restarted(stage, fake, spare):
    fake.reply('{"a":', unterminated=True)
    spare.reply('{"a": 2}')
    events = await stage.take(final_text_only=True)
    assert text(events) == '{"a": 2}'


async def test_subagent_restarts_after_partial_reasoning(stage, fake, spare):
    fake.reply("Half", reasoning=["hm"], unterminated=True)
    spare.reply("Whole.")
    task = stage.task()

    async def none(agent):
        return []

    models = task.fallback_chain._models
    find = answering(task.agent, models)
    critic = Subagent(task.agent.name, None, find, none, depth=1)
    entry = trace.TracedToolCall("a", "subagent", "{}")
    assert await critic.call({"message": "Judge."}, entry) == "Whole."
    await client.close()
    assert [call.provider for call in entry.calls] == ["first", "spare"]


# Reasoning stays with its model.


async def test_reasoning_is_not_sent_to_another_model(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("anthropic", "anthropic", "openai"))
    fake.reply(reasoning=["Mine."], tool_calls=[("add", {})])
    fake.fail(500)
    spare.call_tool("add", {})
    spare.fail(500)
    fake.reply("Done.")
    await stage.take(Tool("add"))
    assert "Mine." not in str(spare.bodies[0]["messages"])
    # The model receives its own reasoning again.
    assert "Mine." in str(fake.bodies[2]["messages"])


async def test_reasoning_blocks_name_their_model(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("anthropic", "openai", "openai"))
    look = {"type": "function", "function": {"name": "look", "parameters": {}}}
    fake.reply(reasoning=["Hm."], tool_calls=[("look", {})])
    events = await stage.take(client_tools=[look])
    (block,) = [each.block for each in events if isinstance(each, ReasoningBlock)]
    assert block.model == "first/m1"
    assert any(isinstance(event, ReasoningDelta) for event in events)


@pytest.mark.parametrize(
    ("model", "is_shown"), [("first/m1", True), ("", True), ("gemini/pro", False)]
)
async def test_stored_reasoning_is_sent_to_its_own_model(
    fake, spare, last, model, is_shown
):
    stage = Stage(fake, spare, last, kinds=("anthropic", "openai", "openai"))
    reasoning_item = Reasoning("Hm.", "signed", model=model)
    call = ToolCall("c1", "look", "{}")
    message = Message(
        "assistant", None, tool_calls=(call,), reasoning=(reasoning_item,)
    )
    done = Message("tool", "blue", tool_call_id="c1")
    await stage.take(messages=[Message("user", "hi"), message, done])
    assert ("Hm." in str(fake.bodies[0]["messages"])) is is_shown
