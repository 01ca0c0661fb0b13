"""A reply that breaks off after its client has received a part is continued."""

from contextlib import aclosing

import pytest

from agents import loop, rescue
from agents.rescue import Diverged, RepetitionFilter
from core import trace
from core.errors import CoulisseError
from core.events import (
    Heartbeat,
    ReasoningDelta,
    ToolCallDelta,
    TurnFinished,
)
from providers import client
from providers.errors import ProviderDisconnected
from testing.wires import ScriptedAnswer
from tests.agents.fallback_harness import TWO, Stage, text
from tests.agents.test_loop import Tool

SAID = "The river rises in the hills, "
REST = "and ends in the sea."
WHOLE = SAID + REST
LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}
BREAKS = {
    "cut": {"cut": "mid_stream"},
    "without its end": {"unterminated": True},
    "error": {"error": {"message": "no", "type": "server_error"}},
}


def breaks_off(fake, *pieces, how="cut", **fields):
    fake.answer(ScriptedAnswer(pieces or (SAID,), **BREAKS[how], **fields))


@pytest.mark.parametrize("how", BREAKS)
async def test_fallback_continues_a_reply(stage, fake, spare, how):
    breaks_off(fake, how=how)
    spare.reply("and ends ", "in the sea.")
    events = await stage.take()
    assert text(events) == WHOLE
    assert sum(isinstance(event, TurnFinished) for event in events) == 1
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]
    *_, begun, instruction = spare.requests[0].body["messages"]
    assert begun == {"role": "assistant", "content": SAID}
    assert instruction == {"role": "user", "content": rescue.INSTRUCTION}
    used = [call.usage for call in trace.iter_model_calls(stage.record)]
    assert all(each.output_tokens for each in used)
    assert events[-1].usage == used[0] + used[1]


async def test_rest_may_be_that_much_shorter(stage, fake, spare):
    breaks_off(fake)
    spare.reply(REST)
    await stage.take(requested={"max_tokens": 100})
    (body,) = spare.bodies
    assert 80 < body["max_tokens"] < 100


async def test_same_model_continues_first(fake, spare, last):
    stage = Stage(fake, spare, last, retries=1)
    breaks_off(fake)
    fake.reply(REST)
    assert text(await stage.take()) == WHOLE
    assert stage.calls == [("first/m1", False), ("first/m1", True)]
    assert not spare.requests


async def test_each_part_is_received_once(fake, spare, last):
    stage = Stage(fake, spare, last, retries=1)
    breaks_off(fake, "One ")
    breaks_off(fake, "two ")
    breaks_off(spare, "three ")
    breaks_off(spare, "four ")
    last.reply("five.")
    events = await stage.take(fallbacks=TWO)
    assert text(events) == "One two three four five."
    answered = ["first/m1"] * 2 + ["spare/m2"] * 2 + ["last/m3"]
    assert [call for call, _ in stage.calls] == answered


async def test_stalled_reply_goes_to_a_fallback_at_once(fake, spare, last):
    timeouts = {"idle_seconds": 0.1}
    stage = Stage(fake, spare, last, retries=2, timeouts=timeouts)
    fake.hang("mid_stream", SAID)
    spare.reply(REST)
    assert text(await stage.take()) == WHOLE
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]


async def test_stalled_reply_is_continued_without_a_fallback(fake, spare, last):
    timeouts = {"idle_seconds": 0.1}
    stage = Stage(fake, spare, last, retries=1, timeouts=timeouts)
    fake.hang("mid_stream", SAID)
    fake.reply(REST)
    assert text(await stage.take(fallbacks=[])) == WHOLE


async def test_reply_is_continued_as_a_prefill(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    breaks_off(fake)
    spare.reply(" " + REST)
    assert text(await stage.take(max_tokens=100)) == WHOLE
    *_, begun = spare.requests[0].body["messages"]
    assert begun["role"] == "assistant"
    assert SAID.rstrip() in str(begun["content"])
    assert not str(begun["content"]).endswith(" ")


async def test_model_that_refuses_a_prefill_is_asked_without_it(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    breaks_off(fake)
    spare.fail(400, "This model does not support assistant message prefill.")
    spare.reply(REST)
    assert text(await stage.take(max_tokens=100)) == WHOLE
    first, second = (each.body["messages"][-1] for each in spare.requests)
    assert (first["role"], second["role"]) == ("assistant", "user")


async def test_model_that_refuses_to_continue_is_asked_anew(stage, fake, spare):
    breaks_off(fake)
    spare.fail(400)
    spare.reply(WHOLE)
    assert text(await stage.take()) == WHOLE
    assert spare.requests[-1].body["messages"][-1]["content"] == "hi"


@pytest.mark.parametrize(
    "repeated", [WHOLE, "in the hills, " + REST, REST], ids=["all", "end", "none"]
)
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_repetition_is_left_out(stage, fake, spare, repeated, size):
    breaks_off(fake)
    spare.reply(*(repeated[n : n + size] for n in range(0, len(repeated), size)))
    assert text(await stage.take()) == WHOLE


async def test_restarted_reply_is_sent_from_where_it_broke_off(stage, fake, spare):
    breaks_off(fake)
    spare.reply(WHOLE[:9], WHOLE[9:])
    assert text(await stage.take(rescue="restart")) == WHOLE
    assert spare.requests[0].body["messages"][-1]["content"] == "hi"


@pytest.mark.parametrize("other", ["Another reply.", SAID[:8]])
async def test_other_restarted_reply_ends_in_the_error(stage, fake, spare, other):
    breaks_off(fake)
    spare.reply(other)
    events = []

    async def listen():
        async with aclosing(loop.run(stage.task(rescue="restart"))) as turn:
            async for event in turn:
                events.append(event)

    with pytest.raises(ProviderDisconnected) as caught:
        await listen()
    await client.close()
    assert text(events) == SAID
    assert isinstance(caught.value.__cause__, Diverged)


async def test_half_a_tool_call_is_asked_again(stage, fake, spare):
    half = ScriptedAnswer((), tool_calls=[("look", {"at": "x"})], cut="mid_stream")
    fake.answer(half)
    spare.call_tool("look", {"at": "y"})
    events = await stage.take(client_tools=[LOOK])
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert [(call.index, call.name, call.arguments) for call in calls] == [
        (0, "look", '{"at":"y"}')
    ]
    assert events[-1].reason == "tool_calls"


async def test_own_tool_is_called_once(stage, fake, spare):
    called = []
    tool = Tool("look", lambda arguments: called.append(arguments) or "seen")
    half = ScriptedAnswer((SAID,), tool_calls=[("look", {})], unterminated=True)
    fake.answer(half)
    spare.call_tool("look", {})
    spare.reply("Done.")
    events = await stage.take(tool)
    assert text(events) == f"{SAID}\n\nDone."
    assert called == [{}]


async def test_reasoning_alone_is_asked_anew(stage, fake, spare):
    fake.answer(ScriptedAnswer((), reasoning=["hm"], unterminated=True))
    spare.reply("Yes.")
    events = await stage.take()
    assert text(events) == "Yes."
    assert any(isinstance(event, ReasoningDelta) for event in events)
    assert spare.requests[0].body["messages"][-1]["content"] == "hi"


async def test_refusal_is_not_continued(stage, fake, spare):
    fake.answer(ScriptedAnswer((), refusal="I can", unterminated=True))
    with pytest.raises(CoulisseError):
        await stage.take()
    assert not spare.requests


async def test_error_is_that_of_the_break(stage, fake, spare):
    breaks_off(fake)
    spare.fail(500)
    with pytest.raises(CoulisseError) as caught:
        await stage.take()
    assert "broke the connection" in str(caught.value)
    assert "the fallbacks failed too: spare/m2" in str(caught.value)


async def test_long_calls_have_heartbeats(stage, fake, monkeypatch):
    monkeypatch.setattr("agents.stream_filter.HEARTBEAT_SECONDS", 0.0)
    fake.call_tool("look", {"at": "x"})
    events = await stage.take(client_tools=[LOOK])
    kinds = [type(event) for event in events]
    assert kinds.index(Heartbeat) < kinds.index(ToolCallDelta)


@pytest.mark.parametrize(
    ("said", "rest", "passed"),
    [
        ("ban", "ana", "ana"),
        ("Hello ", " there", "there"),
        ("Hello", "Hello there", " there"),
        ("one two three four", "two three five", "two three five"),
        ("one two three four", "three four", ""),
        ("one two three", "three", "three"),
        ("one, two three four", "two three four five", " five"),
        ("aaaaaaaaaaaa", "aaaaaaaaaaaab", "b"),
    ],
)
def test_only_whole_repetitions_are_left_out(said, rest, passed):
    for size in (1, 3, 100):
        repetition = RepetitionFilter(said, is_restart=False)
        pieces = [rest[n : n + size] for n in range(0, len(rest), size)]
        found = "".join(map(repetition.add, pieces)) + repetition.flush()
        assert found == passed, size
