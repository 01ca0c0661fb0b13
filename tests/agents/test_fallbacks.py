"""Fallbacks answer when a model fails."""

import asyncio
from contextlib import aclosing

import pytest

from agents import loop
from core import trace
from core.errors import CoulisseError
from core.events import (
    TurnFinished,
)
from core.messages import Message
from providers import client
from providers.errors import (
    ContentFiltered,
    ProviderDisconnected,
    RequestRefused,
)
from tests.agents.fallback_harness import EITHER, TWO, Stage, agent, text
from tests.agents.test_loop import Tool

# Errors that lead to a fallback.


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


# Errors that do not.


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
async def test_reply_that_breaks_off_may_be_left(stage, fake, spare, heard):
    reply = {"reasoning": ["hm"]} if heard == "reasoning" else {}
    reply = {"refusal": "no"} if heard == "refusal" else reply
    fake.reply(*(["Once "] if heard == "text" else []), **reply, unterminated=True)
    events = []

    async def listen():
        async with aclosing(loop.run(stage.task(rescue="off"))) as turn:
            async for event in turn:
                events.append(event)

    with pytest.raises(CoulisseError):
        await listen()
    await client.close()
    assert events
    assert spare.requests == []


async def test_cut_stream_fails_if_so_configured(stage, fake, spare):
    fake.cut("mid_stream", "Once ", "upon ")
    error = await stage.fails(rescue="off")
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


# The request to a fallback.


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


async def test_equal_models_are_tried_once(stage, fake, spare):
    fake.fail(503)
    spare.fail(503)
    same = agent("b", provider="spare", model="m2")
    fallbacks = [{"provider": "spare", "model": "m2"}, "b"]
    error = await stage.fails(fallbacks=fallbacks, others=[same])
    assert error.code == "provider_overloaded"
    assert stage.calls == [("first/m1", False), ("spare/m2", False)]
