"""Replies of the OpenAI wire, over real HTTP."""

import pytest

from core.events import (
    ReasoningBlock,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from core.messages import Reasoning
from providers.errors import BrokenReply, Overloaded
from providers.wires.openai_usage import parse_usage
from tests.providers.conftest import collect_events, model_request
from tests.providers.wires.openai_samples import (
    chunk,
    piece,
    tools,
)


@pytest.mark.parametrize("stream", [True, False])
async def test_stream_of_a_whole_turn_is_read(fake, stream: bool):
    count = Usage(9, 5, cache_read_tokens=4, reasoning_tokens=2)
    fake.reply("Hel", "lo", reasoning=["h", "m"], refusal="no", usage=count)
    events = await collect_events(fake.provider(), model_request(stream=stream))

    def text(kind):
        return "".join(event.text for event in events if isinstance(event, kind))

    assert text(TextDelta) == "Hello"
    assert text(ReasoningDelta) == "hm"
    assert text(RefusalDelta) == "no"
    assert events[-1] == TurnFinished("stop", count)


@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_tool_calls_are_read(fake, stream: bool):
    fake.reply(tool_calls=[("add", {"a": 1}), ("now", {})])
    events = await collect_events(fake.provider(), model_request(stream=stream))
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert joined(calls) == [("add", '{"a":1}'), ("now", "{}")]
    assert events[-1].reason == "tool_calls"


def joined(calls: list[ToolCallDelta]) -> list[tuple[str, str]]:
    """Join deltas into calls; each call must have one name."""
    found: list[tuple[str, str]] = []
    for call in calls:
        if call.index == len(found):
            assert call.id
            found.append((call.name or "", ""))
        else:
            assert (call.id, call.name) == (None, None)
        name, arguments = found[call.index]
        found[call.index] = (name, arguments + call.arguments)
    return found


TWO_CALLS = [("add", '{"a":1}'), ("now", "{}")]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                tools(piece('{"a":1}', "add", id="a"), piece("{}", "now", id="b")),
            ],
            id="whole, without index",
        ),
        pytest.param(
            [
                tools(piece('{"a"', "add", id="a", index=0)),
                tools(piece(":1}", "add", id="a", index=0)),
                tools(piece("{}", "now", id="b", index=1)),
            ],
            id="id and name on every piece",
        ),
        pytest.param(
            [
                tools(piece('{"a":1}', "add", id="a", index=0)),
                tools(piece("{}", "now", id="b", index=0)),
            ],
            id="one index for all",
        ),
        pytest.param(
            [
                tools(piece('{"a"', "add", id="a")),
                tools(piece(":1}")),
                tools(piece("", "now", id="b")),
                tools(piece("{}")),
            ],
            id="pieces without index",
        ),
        pytest.param(
            [
                tools(piece('{"a"', "add", id="a")),
                tools(piece("{}", "now", id="b")),
                tools(piece(":1}", id="a")),
            ],
            id="pieces told apart by id",
        ),
        pytest.param(
            [
                tools({"index": 0, "id": "a", "function": None}),
                tools(piece('{"a":1}', "add", index=0)),
                tools(piece("{}", "now", index=1)),
            ],
            id="name after id, and no id at all",
        ),
        pytest.param(
            [
                tools(piece({"a": 1}, "add", id="a")),
                tools(piece({}, "now", id="b")),
            ],
            id="arguments as objects",
        ),
    ],
)
async def test_tool_calls_are_read_in_any_chunking(fake, chunks):
    fake.events(*chunks, chunk("tool_calls"))
    events = await collect_events(fake.provider())
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert joined(calls) == TWO_CALLS


async def test_legacy_function_call_is_read(fake):
    fake.events(
        chunk(function_call={"name": "add", "arguments": '{"a"'}),
        chunk(function_call={"arguments": ":1}"}),
        chunk("function_call"),
    )
    *calls, end = await collect_events(fake.provider())
    assert joined(calls) == [("add", '{"a":1}')]
    assert end.reason == "tool_calls"


HI = chunk(content="Hi")


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([HI, chunk("stop")], id="plain"),
        pytest.param([{"choices": [{"delta": {"content": "Hi"}}]}], id="no reason"),
        pytest.param([chunk("", content="Hi"), chunk("stop")], id="empty reason"),
        pytest.param([HI, chunk("whatever")], id="unknown reason"),
        pytest.param([chunk(content="Hi", tool_calls=None)], id="tool_calls null"),
        pytest.param(
            [{"choices": [{"delta": None}]}, HI, chunk("stop")], id="delta null"
        ),
        pytest.param(
            [chunk(content=[{"type": "text", "text": "Hi"}, "", {}])], id="parts"
        ),
        pytest.param(
            [HI, {"choices": [{"index": 1, "delta": {"content": "No"}}]}],
            id="a second choice",
        ),
        pytest.param([{"choices": []}, {"object": "x"}, HI], id="empty chunks"),
        pytest.param([{"choices": [None]}, HI], id="choice null"),
        pytest.param([chunk(role="assistant", content="Hi")], id="role again"),
    ],
)
async def test_stream_quirks_are_tolerated(fake, chunks):
    fake.events(*chunks)
    assert await collect_events(fake.provider()) == [
        TextDelta("Hi"),
        TurnFinished("stop", None),
    ]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
async def test_reasoning_is_read_under_both_names(fake, key: str):
    fake.events(chunk(**{key: "hm"}), HI)
    assert (await collect_events(fake.provider()))[0] == ReasoningDelta("hm")


async def test_reasoning_to_send_back_is_kept_whole(fake):
    fake.events(
        chunk(reasoning_content="h"), chunk(reasoning_content="m"), chunk("stop")
    )
    events = await collect_events(fake.provider("deepseek"))
    assert events[2] == ReasoningBlock(Reasoning("hm"))


async def test_finish_reason_is_an_end_without_done(fake):
    fake.events(HI, chunk("length"), done=False)
    assert (await collect_events(fake.provider()))[-1] == TurnFinished("length", None)


@pytest.mark.parametrize("pieces", [(), ("Hello",)])
async def test_unterminated_stream_is_an_error(fake, pieces):
    fake.reply(*pieces, unterminated=True)
    with pytest.raises(BrokenReply, match="is incomplete"):
        await collect_events(fake.provider(retries=0))


async def test_empty_stream_is_an_error(fake):
    fake.events()
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider(retries=0))


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource"])
async def test_error_finish_reason_is_an_error(fake, word: str):
    fake.events(HI, chunk(word))
    with pytest.raises(Overloaded):
        await collect_events(fake.provider(retries=0))


async def test_tool_calls_override_the_finish_reason(fake):
    fake.events(tools(piece("{}", "now", id="a")), chunk("stop"))
    assert (await collect_events(fake.provider()))[-1].reason == "tool_calls"


async def test_whole_reply_to_a_stream_request_is_read(fake):
    body = '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'
    fake.raw(body)
    assert await collect_events(fake.provider()) == [
        TextDelta("Hi"),
        TurnFinished("stop", None),
    ]


@pytest.mark.parametrize(
    "body",
    ["[]", "{}", '{"choices": []}', "null", "nonsense", '{"choices": '],
    ids=repr,
)
async def test_invalid_whole_reply_is_an_error(fake, body: str):
    fake.raw(body)
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider(retries=0), model_request(stream=False))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(5, 2)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(9, 4, cache_read_tokens=8, reasoning_tokens=3),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 6},
            Usage(9, 1, cache_read_tokens=6),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 5},
                "cached_tokens": 7,
            },
            Usage(9, 1, cache_write_tokens=5),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 7},
            Usage(9, 1, cache_read_tokens=7),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 30},
            Usage(9, 21, reasoning_tokens=20),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": None,
                "prompt_tokens_details": None,
            },
            Usage(9, 0),
        ),
        ({"prompt_tokens": 9, "total_tokens": 30}, Usage(9, 21, reasoning_tokens=21)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(9, 4, cache_read_tokens=9, reasoning_tokens=4),
        ),
        ({"prompt_tokens": 9.0, "completion_tokens": True}, Usage(9, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 4}, Usage(0, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 10**19}, Usage(9, 0)),
        ({"prompt_tokens": "9", "completion_tokens": [4]}, None),
        ({"prompt_tokens": float("inf"), "total_tokens": 4}, None),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": "13",
                "prompt_tokens_details": 7,
                "completion_tokens_details": [1],
            },
            Usage(9, 4),
        ),
        (
            {
                "prompt_tokens": 2**31 - 1,
                "completion_tokens": 2**31 - 1,
                "total_tokens": 2**31,
            },
            Usage(2**31 - 1, 2**31 - 1),
        ),
        ("many", None),
        ({}, None),
    ],
)
def test_usage_is_converted(raw, expected: Usage | None):
    assert parse_usage(raw) == expected


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {"x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}},
    ],
)
async def test_usage_is_found_in_every_position(fake, last):
    fake.events(HI, chunk("stop"), last)
    assert (await collect_events(fake.provider()))[-1] == TurnFinished(
        "stop", Usage(5, 2)
    )


@pytest.mark.parametrize("nonsense", ["many", 7, {"prompt_tokens": -3}, [1]])
async def test_invalid_usage_is_ignored(fake, nonsense):
    fake.events(HI, chunk("stop"), {"choices": [], "usage": nonsense})
    assert (await collect_events(fake.provider()))[-1] == TurnFinished("stop", None)


async def test_invalid_usage_does_not_replace_a_valid_one(fake):
    count = {"prompt_tokens": 5, "completion_tokens": 2}
    fake.events(HI, {"choices": [], "usage": count}, {"choices": [], "usage": 7})
    assert (await collect_events(fake.provider()))[-1].usage == Usage(5, 2)


BAD = '{"choices": [{"delta": {"content": "x'


async def test_malformed_piece_between_good_ones_is_skipped(fake):
    fake.events(chunk(content="Hel"), BAD, chunk(content="lo"), chunk("stop"))
    events = await collect_events(fake.provider(), model_request())
    assert [each.text for each in events if isinstance(each, TextDelta)] == [
        "Hel",
        "lo",
    ]
    assert events[-1].reason == "stop"


@pytest.mark.parametrize(
    ("pieces", "done"),
    [
        ((BAD, chunk(content="Hel"), chunk(content="lo")), True),
        ((chunk(content="Hel"), BAD, chunk(content="lo"), BAD), True),
        ((chunk(content="Hel"), BAD), True),
        ((chunk(content="Hel"), BAD), False),
        ((chunk(content="Hel"), '{"choices": [{"delta": {"tool_calls": ['), True),
    ],
    ids=["first", "second", "last", "no end", "tool call"],
)
async def test_malformed_piece_is_an_error(fake, pieces, done):
    fake.events(*pieces, done=done)
    with pytest.raises(BrokenReply, match="is not valid JSON"):
        await collect_events(fake.provider(retries=0), model_request())
