"""What answers when an agent's own model fails."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from agents import fallback_chain, loop
from agents.config import AGENTS, AgentConfig
from agents.fallback_chain import FallbackChain
from agents.loop import AgentRun
from agents.subagents import Subagent
from config.sections import Config
from core import trace
from core.errors import CoulisseError, Invalid
from core.events import (
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
)
from core.messages import Message, Reasoning, ToolCall
from providers import client
from providers.config import PROVIDERS
from providers.errors import (
    ContentFiltered,
    Overloaded,
    ProviderDisconnected,
    RateLimited,
    RequestRefused,
)
from testing.scripted_provider import FakeProvider
from tests.agents.test_loop import Tool
from tests.agents.test_subagents import answering

EITHER = pytest.mark.parametrize("stream", [True, False])


@pytest.fixture
def spare():
    """The provider that is fallen back to."""
    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def last():
    """The one after it."""
    with FakeProvider() as provider:
        yield provider


class Stage:
    """An agent on a first provider, with fallbacks on the others."""

    def __init__(self, first, spare, last, *, kinds=("openai", "openai", "openai")):
        fakes = dict(zip(("first", "spare", "last"), (first, spare, last), strict=True))
        self.record = []
        self._providers = {
            name: fake.provider(kind, retries=0)
            for (name, fake), kind in zip(fakes.items(), kinds, strict=True)
        }

    def task(
        self, *tools, others=(), requested=None, messages=None, fallbacks=None, **more
    ):
        fields = {
            key: more.pop(key) for key in [*more] if key in AgentConfig.model_fields
        }
        if fallbacks is None:
            fallbacks = [{"provider": "spare", "model": "m2"}]
        agent = AgentConfig.model_validate(
            {
                "name": "a",
                "provider": "first",
                "model": "m1",
                "fallbacks": fallbacks,
                **fields,
            }
        )
        named = {agent.name: agent, **{each.name: each for each in others}}
        config = Config(
            Path("coulisse.yaml"),
            {PROVIDERS.key: self._providers, AGENTS.key: named},
        )
        return AgentRun(
            agent,
            FallbackChain(fallback_chain.models_for(config, agent)),
            messages or [Message("user", "hi")],
            requested or {},
            own_tools=tools,
            record=self.record,
            **more,
        )

    async def take(self, *tools, **more):
        try:
            return [event async for event in loop.run(self.task(*tools, **more))]
        finally:
            await client.close()

    async def fails(self, *tools, **more) -> CoulisseError:
        """Take a turn that fails; return its error."""
        with pytest.raises(CoulisseError) as caught:
            await self.take(*tools, **more)
        return caught.value

    @property
    def calls(self):
        """What was called, and what became of it."""
        calls = trace.iter_model_calls(self.record)
        return [(f"{c.provider}/{c.model}", c.error is None) for c in calls]


@pytest.fixture
def stage(fake, spare, last):
    return Stage(fake, spare, last)


def text(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def agent(name, **fields):
    return AgentConfig.model_validate({"name": name, "model": f"{name}-m", **fields})


TWO = [{"provider": "spare", "model": "m2"}, {"provider": "last", "model": "m3"}]


# What is routed around.


@EITHER
@pytest.mark.parametrize("status", [401, 402, 404, 408, 429, 500, 503, 307])
async def test_failed_provider_uses_the_fallback(stage, fake, spare, status, stream):
    fake.fail(status)
    spare.reply("Here", " I am.")
    events = await stage.take(stream=stream)
    assert text(events) == "Here I am."
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]
    assert [len(call.attempts) for call in stage.record] == [1, 1]
    assert sum(isinstance(event, TurnFinished) for event in events) == 1


@EITHER
@pytest.mark.parametrize("place", ["headers", "first_token"])
async def test_early_disconnect_uses_the_fallback(stage, fake, spare, place, stream):
    fake.cut(place)
    assert text(await stage.take(stream=stream)) == "Hello from the fake."
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]


async def test_truncated_whole_reply_uses_the_fallback(stage, fake, spare):
    fake.cut("mid_stream")
    assert text(await stage.take(stream=False)) == "Hello from the fake."


@pytest.mark.parametrize("body", ["", "{", "[]", '{"choices": []}', "<html>"], ids=repr)
@EITHER
async def test_invalid_reply_uses_the_fallback(stage, fake, body, stream):
    fake.raw(body)
    assert text(await stage.take(stream=stream)) == "Hello from the fake."


async def test_unneeded_fallback_is_not_called(stage, fake, spare):
    await stage.take()
    assert spare.requests == []
    assert stage.calls == [("first/m1", True)]


async def test_fallbacks_are_tried_in_order(stage, fake, spare, last):
    fake.fail(500)
    spare.fail(500)
    last.reply("Me.")
    assert text(await stage.take(fallbacks=TWO)) == "Me."
    assert [call for call, _ in stage.calls] == ["first/m1", "spare/m2", "last/m3"]


# What is not.


@EITHER
async def test_refused_request_tries_no_fallback(stage, fake, spare, stream):
    fake.fail(400, "the prompt is too long")
    error = await stage.fails(stream=stream)
    assert isinstance(error, RequestRefused)
    assert spare.requests == []
    assert (error.provider, trace.count_attempts(stage.record)) == ("first", 1)


@EITHER
@pytest.mark.parametrize("status", [400, 403, 500])
async def test_content_filter_tries_no_fallback(stage, fake, spare, status, stream):
    fake.fail(status, "the prompt was filtered", code="content_filter")
    error = await stage.fails(stream=stream)
    assert isinstance(error, ContentFiltered)
    assert spare.requests == []


async def test_content_filter_of_a_fallback_ends_the_turn(stage, fake, spare, last):
    fake.fail(500)
    spare.fail(400, "the prompt was filtered", code="content_filter")
    assert isinstance(await stage.fails(fallbacks=TWO), ContentFiltered)
    assert last.requests == []


@EITHER
async def test_filtered_reply_is_the_answer(stage, fake, spare, stream):
    fake.reply(finish="content_filter")
    events = await stage.take(stream=stream)
    assert events[-1].reason == "content_filter"
    assert spare.requests == []


@pytest.mark.parametrize("heard", ["text", "reasoning", "refusal"])
async def test_no_fallback_after_sent_output(stage, fake, spare, heard):
    said = {"reasoning": ["hm"]} if heard == "reasoning" else {}
    said = {"refusal": "no"} if heard == "refusal" else said
    fake.reply(*(["Once "] if heard == "text" else []), **said, unterminated=True)
    events = []

    async def listen():
        async with aclosing(loop.run(stage.task())) as turn:
            async for event in turn:
                events.append(event)

    with pytest.raises(CoulisseError):
        await listen()
    await client.close()
    assert events
    assert spare.requests == []


async def test_cut_stream_fails_without_a_fallback(stage, fake, spare):
    fake.cut("mid_stream", "Once ", "upon ")
    error = await stage.fails()
    assert isinstance(error, ProviderDisconnected)
    assert (error.provider, trace.count_attempts(stage.record)) == ("first", 1)
    assert spare.requests == []
    assert stage.record[0].usage.output_tokens > 0


async def test_client_disconnect_ends_the_turn(stage, fake, spare):
    fake.hang("headers")
    turn = asyncio.ensure_future(stage.take())
    await fake.until(lambda: fake.requests)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await fake.until(lambda: fake.requests[0].aborted)
    assert spare.requests == []


async def test_internal_error_tries_no_fallback(stage, fake, spare, monkeypatch):
    def broken(*arguments, **more):
        raise ZeroDivisionError

    monkeypatch.setattr(client, "run", broken)
    with pytest.raises(ZeroDivisionError):
        await stage.take()
    assert len(stage.record) <= 1


# With what a fallback is asked.


async def test_fallback_uses_the_agents_parameters(stage, fake, spare):
    fake.fail(500)
    await stage.take(
        temperature=0.0, seed=7, extra_body={"top_k": 5}, requested={"seed": 8}
    )
    sent = spare.bodies[0]
    assert (sent["model"], sent["temperature"], sent["seed"]) == ("m2", 0.0, 8)
    assert "top_k" not in sent
    assert fake.bodies[0]["top_k"] == 5


async def test_same_provider_fallback_keeps_extra_body(stage, fake):
    fake.fail(500)
    await stage.take(
        extra_body={"top_k": 5}, fallbacks=[{"provider": "first", "model": "m2"}]
    )
    assert (fake.bodies[1]["model"], fake.bodies[1]["top_k"]) == ("m2", 5)


async def test_fallback_agent_lends_only_its_model(stage, fake, spare):
    other = agent(
        "b",
        provider="spare",
        preamble="You are somebody else.",
        temperature=1.0,
        max_tokens=9,
        extra_body={"top_k": 3},
        fallbacks=[{"provider": "last", "model": "m3"}],
    )
    fake.fail(500)
    await stage.take(
        Tool("add"),
        others=[other],
        fallbacks=["b"],
        temperature=0.0,
        seed=7,
        messages=[Message("system", "You are you."), Message("user", "hi")],
    )
    sent = spare.bodies[0]
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("b-m", 1.0, 9)
    assert sent["top_k"] == 3
    assert "seed" not in sent
    assert [message["content"] for message in sent["messages"]] == [
        "You are you.",
        "hi",
    ]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["add"]
    assert [call.agent for call in stage.record] == ["a", "a"]


async def test_fallbacks_of_a_fallback_are_not_followed(stage, fake, spare, last):
    more = [{"provider": "last", "model": "m3"}]
    other = agent("b", provider="spare", fallbacks=more)
    fake.fail(500)
    spare.fail(500)
    await stage.fails(others=[other], fallbacks=["b"])
    assert last.requests == []


async def test_response_format_is_sent_where_supported(fake, spare, last):
    stage = Stage(fake, spare, last)
    stage._providers["spare"] = spare.provider(structured_outputs="native", retries=0)
    fake.fail(500)
    await stage.take(response_format={"type": "json_object"}, final_text_only=True)
    assert "response_format" not in fake.bodies[0]
    assert spare.bodies[0]["response_format"] == {"type": "json_object"}


# A fallback that cannot do what is asked.


async def test_fallback_without_parameter_support_is_skipped(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    fake.fail(500)
    assert text(await stage.take(requested={"seed": 1}, fallbacks=TWO))
    assert spare.requests == []
    passed_over = stage.record[1]
    assert "does not support 'seed'" in passed_over.error
    assert passed_over.attempts == []


async def test_skipped_fallbacks_leave_the_original_error(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    fake.fail(503)
    error = await stage.fails(requested={"seed": 1})
    assert isinstance(error, Overloaded)
    assert "does not support 'seed'" in error.message


async def test_prompt_too_long_for_a_fallback_tries_the_next(stage, fake, spare):
    fake.fail(500)
    spare.fail(400, "the prompt is too long")
    assert text(await stage.take(fallbacks=TWO)) == "Hello from the fake."


async def test_parameter_refused_by_own_provider_is_reported(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("anthropic", "openai", "openai"))
    error = await stage.fails(requested={"seed": 1})
    assert isinstance(error, Invalid)
    assert error.param == "seed"
    assert spare.requests == []


# When all fail.


async def test_first_error_is_raised_with_details_of_the_others(
    stage, fake, spare, last
):
    fake.fail(429, "slow down", headers={"Retry-After": "3"})
    spare.fail(401)
    last.fail(503, "busy")
    error = await stage.fails(fallbacks=TWO)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 3
    assert (error.provider, trace.count_attempts(stage.record)) == ("first", 3)
    for part in ("the rate limit", "spare/m2: provider 'spare' refused", "last/m3: "):
        assert part in error.message
    for part in ("slow down", "spare/m2: check ", "last/m3: its message: busy"):
        assert part in error.detail
        assert part not in error.message
    assert [ok for _, ok in stage.calls] == [False, False, False]
    assert "spare" not in stage.record[0].error


async def test_provider_failure_outranks_a_fallback_refusal(stage, fake, spare):
    fake.fail(500)
    spare.call_tool("add", {})
    spare.fail(400, "the prompt is too long")
    fake.fail(503, "busy")
    error = await stage.fails(Tool("add"))
    assert isinstance(error, Overloaded)
    assert error.provider == "first"
    assert "too long" in error.message


async def test_error_without_fallbacks_is_unchanged(stage, fake):
    fake.fail(500, "boom")
    error = await stage.fails(fallbacks=[])
    assert (
        str(error) == "provider 'first' failed (HTTP 500) [details: its message: boom]"
    )


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
    made = []
    fake.reply(tool_calls=[("add", {"from": "first"})], unterminated=True)
    spare.call_tool("add", {"from": "spare"})
    spare.reply("Done.")
    tool = Tool("add", lambda arguments: made.append(arguments["from"]) or "done")
    assert text(await stage.take(tool)) == "Done."
    assert made == ["spare"]


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


# Thinking goes to nobody else.


async def test_reasoning_is_not_sent_to_another_model(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("anthropic", "anthropic", "openai"))
    fake.reply(reasoning=["Mine."], tool_calls=[("add", {})])
    fake.fail(500)
    spare.call_tool("add", {})
    spare.fail(500)
    fake.reply("Done.")
    await stage.take(Tool("add"))
    assert "Mine." not in str(spare.bodies[0]["messages"])
    # It is its own, so it gets it back.
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
    ("whose", "is_shown"), [("first/m1", True), ("", True), ("gemini/pro", False)]
)
async def test_stored_reasoning_is_sent_to_its_own_model(
    fake, spare, last, whose, is_shown
):
    stage = Stage(fake, spare, last, kinds=("anthropic", "openai", "openai"))
    thought = Reasoning("Hm.", "signed", model=whose)
    call = ToolCall("c1", "look", "{}")
    said = Message("assistant", None, tool_calls=(call,), reasoning=(thought,))
    done = Message("tool", "blue", tool_call_id="c1")
    await stage.take(messages=[Message("user", "hi"), said, done])
    assert ("Hm." in str(fake.bodies[0]["messages"])) is is_shown
