"""Replies of the Anthropic wire, over real HTTP."""

import pytest

from core.events import (
    ReasoningBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Reasoning
from providers import client
from providers.errors import BrokenReply, Overloaded, RequestRefused
from tests.providers.conftest import collect_events, model_request


@pytest.mark.parametrize("stream", [True, False])
async def test_stream_of_a_whole_turn_is_read(fake, stream: bool):
    count = Usage(19, 5, cache_read_tokens=4, cache_write_tokens=8)
    fake.reply("Hel", "lo", reasoning=["h", "m"], usage=count)
    events = await collect_events(
        fake.provider("anthropic"), model_request(stream=stream)
    )

    def joined_text(kind):
        return "".join(event.text for event in events if isinstance(event, kind))

    assert joined_text(TextDelta) == "Hello"
    assert joined_text(ReasoningDelta) == "hm"
    assert ReasoningBlock(Reasoning("hm", "signed")) in events
    assert events[-1] == TurnFinished("stop", count)


@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_tool_calls_are_read(fake, stream: bool):
    fake.reply("So:", tool_calls=[("add", {"a": 1}), ("now", {})])
    events = await collect_events(
        fake.provider("anthropic"), model_request(stream=stream)
    )
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    first = [(call.index, call.id, call.name) for call in calls if call.name]
    assert first == [(0, "toolu_0", "add"), (1, "toolu_1", "now")]
    assert "".join(c.arguments for c in calls if c.index == 0) == '{"a":1}'
    assert events[-1].reason == "tool_calls"


def stream_of(*events) -> str:
    frames = []
    for event in events:
        data = str(event).replace("'", '"')
        frames.append(f"event: {event['type']}\ndata: {data}\n\n")
    return "".join(frames)


def delta(**fields):
    return {"type": "content_block_delta", "index": 0, "delta": fields}


def start(**fields):
    return {"type": "content_block_start", "index": 0, "content_block": fields}


STOP = {"type": "content_block_stop", "index": 0}
END = {"type": "message_stop"}


def ended(reason: str, **usage: int):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": usage,
    }


async def read(fake, *events):
    fake.raw(stream_of(*events), content_type="text/event-stream")
    return await collect_events(fake.provider("anthropic", retries=0))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ],
)
async def test_finish_reasons_are_translated(fake, word: str, reason: str):
    assert (await read(fake, ended(word), END))[-1].reason == reason


async def test_last_usage_replaces_the_first(fake):
    begin = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 3, "output_tokens": 1}},
    }
    events = await read(fake, begin, ended("end_turn", output_tokens=9), END)
    assert events[-1].usage == Usage(3, 9)


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ({"input_tokens": -3, "output_tokens": 9}, Usage(0, 9)),
        ({"input_tokens": "3", "output_tokens": 9.0}, Usage(0, 9)),
        ({"input_tokens": 3, "output_tokens": 10**19}, Usage(3, 0)),
        (
            {"input_tokens": 2**31 - 1, "cache_creation_input_tokens": 8},
            Usage(2**31 - 1, 0, cache_write_tokens=8),
        ),
        ({"cache_read_input_tokens": 4}, Usage(4, 0, cache_read_tokens=4)),
        (
            {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 6}},
            Usage(0, 9, reasoning_tokens=6),
        ),
        ({"output_tokens": 9, "output_tokens_details": [6]}, Usage(0, 9)),
        ({"input_tokens": [3], "service_tier": "standard"}, None),
        (7, None),
    ],
)
async def test_only_valid_usage_counts_are_read(fake, counted, expected):
    end = {"type": "message_delta", "delta": {}, "usage": counted}
    assert (await read(fake, end, END))[-1].usage == expected


async def test_redacted_thinking_is_kept_for_the_next_call(fake):
    hidden = start(type="redacted_thinking", data="x1")
    signed = [
        start(type="thinking", thinking=""),
        delta(type="signature_delta", signature="s"),
    ]
    events = await read(fake, hidden, STOP, *signed, STOP, END)
    assert [event.block for event in events[:2]] == [
        Reasoning("", redacted="x1"),
        Reasoning("", "s"),
    ]


async def test_unknown_events_are_ignored(fake):
    events = await read(
        fake,
        {"type": "ping"},
        start(type="tool_use", id="0", name="now"),
        STOP,
        start(type="server_tool_use", id="1", name="web_search"),
        delta(type="input_json_delta", partial_json="1"),
        STOP,
        delta(type="citations_delta", citation=1),
        {"type": "news"},
        delta(type="text_delta", text="Hi"),
        END,
    )
    assert events == [
        ToolCallDelta(0, "0", "now"),
        TextDelta("Hi"),
        TurnFinished("stop", None),
    ]


@pytest.mark.parametrize("pieces", [(), ("Hello",)])
async def test_unterminated_stream_is_an_error(fake, pieces):
    fake.reply(*pieces, unterminated=True)
    with pytest.raises(BrokenReply, match="is incomplete"):
        await collect_events(fake.provider("anthropic", retries=0))


async def test_error_in_the_stream_is_raised_after_the_text(fake):
    fake.reply("Hel", error={"type": "overloaded_error", "message": "Overloaded"})
    events = client.run("acme", fake.provider("anthropic"), model_request())
    assert await anext(events) == TextDelta("Hel")
    with pytest.raises(Overloaded, match="Overloaded"):
        await anext(events)


async def test_refused_request_mid_stream_is_a_client_error(fake):
    error = {"type": "invalid_request_error", "message": "prompt is too long: 9 > 5"}
    fake.reply(error=error)
    with pytest.raises(RequestRefused) as caught:
        await collect_events(fake.provider("anthropic"))
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("reply", ["[]", "{}", '{"content": null}', "nonsense"])
async def test_invalid_whole_reply_is_an_error(fake, reply: str):
    fake.raw(reply)
    with pytest.raises(BrokenReply):
        await collect_events(
            fake.provider("anthropic", retries=0), model_request(stream=False)
        )
