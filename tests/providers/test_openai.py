"""The OpenAI wire, over real HTTP."""

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
from core.messages import Message, Reasoning, ToolCall
from providers.config import ProviderConfig
from providers.errors import BrokenReply, Overloaded
from providers.registry import KINDS
from providers.wires.openai import parse_usage

from .conftest import asking, said

TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
CALLED = Message("assistant", tool_calls=(ToolCall("call_1", "add", '{"a":1}'),))


def chunk(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def tools(*pieces, finish=None):
    return chunk(finish, tool_calls=list(pieces))


def piece(arguments="", name=None, **fields):
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function, **fields}


async def sent(fake, kind="openai", provider=None, **fields):
    await said(provider or fake.provider(kind), asking(**fields))
    return fake.requests[-1].body


def official(kind: str, **fields):
    """The body for a kind at its own address, where the fake cannot be."""
    return KINDS[kind].wire.body(asking(**fields))


# What is sent.


async def test_request_has_the_url_and_headers_of_the_api(fake):
    await said(fake.provider(headers={"X-Team": "blue-team"}))
    request = fake.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-fake-0123456789"
    assert request.headers["x-team"] == "blue-team"
    assert request.headers["content-type"] == "application/json"


async def test_no_key_sends_no_authorization_header(fake):
    await said(ProviderConfig(kind="openai", base_url=fake.base_url))
    assert "authorization" not in fake.requests[0].headers


async def test_streams_request_usage(fake):
    body = await sent(fake)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


async def test_unset_parameters_are_not_sent(fake):
    assert await sent(fake, stream=False, parameters={"seed": None}) == {
        "model": "the-model",
        "messages": [{"role": "user", "content": "Hi"}],
    }


async def test_zero_and_empty_values_are_sent(fake):
    given = {"temperature": 0, "seed": 0, "stop": "", "top_p": 0.0, "store": False}
    body = await sent(fake, parameters=given)
    assert {name: body[name] for name in given} == given


async def test_extra_body_overrides_everything(fake):
    body = await sent(
        fake,
        parameters={"temperature": 1},
        extra_body={"temperature": 0.5, "top_k": 0, "stream_options": None},
    )
    assert (body["temperature"], body["top_k"]) == (0.5, 0)
    assert body["stream_options"] is None


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("openai", "max_completion_tokens"),
        ("groq", "max_completion_tokens"),
        ("deepseek", "max_tokens"),
        ("local", "max_tokens"),
    ],
)
def test_max_tokens_has_the_name_of_the_kind(kind: str, wanted: str, name: str):
    body = official(kind, parameters={name: 0})
    assert {key for key in body if key.startswith("max")} == {wanted}
    assert body[wanted] == 0


async def test_compatible_servers_receive_max_tokens(fake):
    body = await sent(fake, parameters={"max_completion_tokens": 5})
    assert body["max_tokens"] == 5


def test_only_openai_receives_the_user():
    assert official("openai", user="u-1")["safety_identifier"] == "u-1"
    for kind in ("groq", "local", "cohere"):
        body = official(kind, user="u-1")
        assert not {"safety_identifier", "user"} & body.keys()


async def test_tools_and_tool_parameters_are_sent(fake):
    about = {"tool_choice": "required", "parallel_tool_calls": False}
    body = await sent(fake, tools=[TOOL], parameters=about)
    assert body["tools"] == [TOOL]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert not about.keys() & (await sent(fake, parameters=about)).keys()


EMPTY = {"type": "object", "properties": {}, "required": []}
FULL = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("kind", "parameters", "sent_as"),
    [
        ("gemini", EMPTY, None),
        ("gemini", {"type": "object"}, None),
        ("gemini", {}, None),
        ("gemini", FULL, FULL),
        ("gemini", {"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}),
        ("groq", EMPTY, EMPTY),
        ("openai", EMPTY, EMPTY),
    ],
)
async def test_tool_without_parameters_fits_the_kind(fake, kind, parameters, sent_as):
    function = {"name": "now", "description": "d", "parameters": parameters}
    body = await sent(fake, kind, tools=[{"type": "function", "function": function}])
    (tool,) = body["tools"]
    assert tool["function"].get("parameters") == sent_as
    assert tool["function"]["description"] == "d"
    assert function["parameters"] is parameters


async def test_tool_loop_is_sent_back(fake):
    body = await sent(
        fake, messages=[CALLED, Message("tool", "2", tool_call_id="call_1")]
    )
    function = {"name": "add", "arguments": '{"a":1}'}
    call = {"id": "call_1", "type": "function", "function": function}
    assert body["messages"] == [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "call_1"},
    ]


def picture(url):
    return {"type": "image_url", "image_url": {"url": url}}


def words(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize("kind", ["cohere", "deepseek", "gemini", "groq", "openai"])
async def test_tool_images_follow_their_results(fake, kind):
    looked = Message(
        "assistant",
        tool_calls=(ToolCall("1", "look", "{}"), ToolCall("2", "draw", "{}")),
    )
    said_and_seen = Message("tool", [words("Here:"), picture(PIXEL)], tool_call_id="1")
    seen = [picture(PIXEL), picture("https://x.test/a.gif")]
    only_seen = Message("tool", seen, tool_call_id="2")
    after = Message("assistant", "I see."), Message("user", "And?")
    messages = [Message("user", "Look"), looked, said_and_seen, only_seen, *after]
    body = await sent(fake, kind, messages=messages)
    assert [m["role"] for m in body["messages"]] == [
        *("user", "assistant", "tool", "tool", "user", "assistant", "user")
    ]
    assert body["messages"][2:5] == [
        {
            "role": "tool",
            "content": "Here:\n(1 image, shown after the tool results)",
            "tool_call_id": "1",
        },
        {
            "role": "tool",
            "content": "(2 images, shown after the tool results)",
            "tool_call_id": "2",
        },
        {
            "role": "user",
            "content": [
                words("(returned by the tool 'look')"),
                picture(PIXEL),
                words("(returned by the tool 'draw')"),
                *seen,
            ],
        },
    ]


async def test_images_of_the_last_result_follow_it(fake):
    seen = Message("tool", [picture(PIXEL)], tool_call_id="call_1")
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, seen])
    assert [m["role"] for m in body["messages"]][2:] == ["tool", "user"]


async def test_result_of_text_parts_is_joined(fake):
    parts = Message("tool", [words("one"), words("two")], tool_call_id="call_1")
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, parts])
    assert body["messages"][2:] == [
        {"role": "tool", "content": "one\ntwo", "tool_call_id": "call_1"}
    ]


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        (picture("data:image/svg+xml;base64,PHN2Zz4="), "(image/svg+xml, not shown)"),
        (picture("data:,x"), "(an image, not shown)"),
        (picture("data:image/png,x"), "(an image, not shown)"),
        (picture("ftp://x.test/a.png"), "(an image, not shown)"),
        ({"type": "input_audio", "input_audio": {}}, "(input_audio, not shown)"),
    ],
)
async def test_unsupported_media_is_named_in_the_result(fake, part, becomes):
    result = Message("tool", [part], tool_call_id="call_1")
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, result])
    (told,) = body["messages"][2:]
    assert told["content"].startswith(becomes)


async def test_image_mime_type_is_normalised(fake):
    result = Message("tool", [picture("data:IMAGE/JPG;base64,/9j/")], tool_call_id="1")
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, result])
    assert body["messages"][3]["content"][1] == picture("data:image/jpeg;base64,/9j/")


async def test_groq_receives_no_message_names(fake):
    messages = [Message("user", "Hi", name="ada")]
    assert "name" not in (await sent(fake, "groq", messages=messages))["messages"][0]
    assert (await sent(fake, messages=messages))["messages"][0]["name"] == "ada"


async def test_deepseek_receives_reasoning_of_its_calls(fake):
    thought = Message(
        "assistant", tool_calls=CALLED.tool_calls, reasoning=(Reasoning("hm"),)
    )
    talk = Message("assistant", "yes", reasoning=(Reasoning("hm"),))
    messages = [thought, CALLED, talk]
    body = await sent(fake, "deepseek", messages=messages)
    given = [message.get("reasoning_content") for message in body["messages"]]
    assert given == ["hm", "", None]
    body = await sent(fake, "openai", messages=messages)
    assert not any("reasoning_content" in message for message in body["messages"])


async def test_gemini_receives_the_signatures_of_its_calls(fake):
    extra = {"google": {"thought_signature": "c2ln"}}
    fake.events(tools(piece("{}", "add", id="a", extra_content=extra), finish="stop"))
    events = await said(fake.provider("gemini"))
    (block,) = [event.block for event in events if isinstance(event, ReasoningBlock)]
    message = Message("assistant", tool_calls=CALLED.tool_calls, reasoning=(block,))
    body = await sent(fake, "gemini", messages=[message])
    assert body["messages"][0]["tool_calls"][0]["extra_content"] == extra


async def test_large_request_is_sent_completely(fake):
    text = "x" * 1_500_000
    body = await sent(fake, messages=[Message("user", text)])
    assert body["messages"][0]["content"] == text


# What is read.


@pytest.mark.parametrize("stream", [True, False])
async def test_stream_of_a_whole_turn_is_read(fake, stream: bool):
    count = Usage(9, 5, cache_read_tokens=4, reasoning_tokens=2)
    fake.reply("Hel", "lo", reasoning=["h", "m"], refusal="no", usage=count)
    events = await said(fake.provider(), asking(stream=stream))

    def text(kind):
        return "".join(event.text for event in events if isinstance(event, kind))

    assert text(TextDelta) == "Hello"
    assert text(ReasoningDelta) == "hm"
    assert text(RefusalDelta) == "no"
    assert events[-1] == TurnFinished("stop", count)


@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_tool_calls_are_read(fake, stream: bool):
    fake.reply(tool_calls=[("add", {"a": 1}), ("now", {})])
    events = await said(fake.provider(), asking(stream=stream))
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert joined(calls) == [("add", '{"a":1}'), ("now", "{}")]
    assert events[-1].reason == "tool_calls"


def joined(calls: list[ToolCallDelta]) -> list[tuple[str, str]]:
    """Put calls together, minding that each is introduced once."""
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
    events = await said(fake.provider())
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert joined(calls) == TWO_CALLS


async def test_legacy_function_call_is_read(fake):
    fake.events(
        chunk(function_call={"name": "add", "arguments": '{"a"'}),
        chunk(function_call={"arguments": ":1}"}),
        chunk("function_call"),
    )
    *calls, end = await said(fake.provider())
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
    assert await said(fake.provider()) == [TextDelta("Hi"), TurnFinished("stop", None)]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
async def test_reasoning_is_read_under_both_names(fake, key: str):
    fake.events(chunk(**{key: "hm"}), HI)
    assert (await said(fake.provider()))[0] == ReasoningDelta("hm")


async def test_reasoning_to_send_back_is_kept_whole(fake):
    fake.events(
        chunk(reasoning_content="h"), chunk(reasoning_content="m"), chunk("stop")
    )
    events = await said(fake.provider("deepseek"))
    assert events[2] == ReasoningBlock(Reasoning("hm"))


async def test_finish_reason_is_an_end_without_done(fake):
    fake.events(HI, chunk("length"), done=False)
    assert (await said(fake.provider()))[-1] == TurnFinished("length", None)


@pytest.mark.parametrize("pieces", [(), ("Hello",)])
async def test_unterminated_stream_is_an_error(fake, pieces):
    fake.reply(*pieces, unterminated=True)
    with pytest.raises(BrokenReply, match="is incomplete"):
        await said(fake.provider(retries=0))


async def test_empty_stream_is_an_error(fake):
    fake.events()
    with pytest.raises(BrokenReply):
        await said(fake.provider(retries=0))


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource"])
async def test_error_finish_reason_is_an_error(fake, word: str):
    fake.events(HI, chunk(word))
    with pytest.raises(Overloaded):
        await said(fake.provider(retries=0))


async def test_tool_calls_override_the_finish_reason(fake):
    fake.events(tools(piece("{}", "now", id="a")), chunk("stop"))
    assert (await said(fake.provider()))[-1].reason == "tool_calls"


async def test_whole_reply_to_a_stream_request_is_read(fake):
    body = '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'
    fake.raw(body)
    assert await said(fake.provider()) == [TextDelta("Hi"), TurnFinished("stop", None)]


@pytest.mark.parametrize(
    "body",
    ["[]", "{}", '{"choices": []}', "null", "nonsense", '{"choices": '],
    ids=repr,
)
async def test_invalid_whole_reply_is_an_error(fake, body: str):
    fake.raw(body)
    with pytest.raises(BrokenReply):
        await said(fake.provider(retries=0), asking(stream=False))


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
    assert (await said(fake.provider()))[-1] == TurnFinished("stop", Usage(5, 2))


@pytest.mark.parametrize("nonsense", ["many", 7, {"prompt_tokens": -3}, [1]])
async def test_invalid_usage_is_ignored(fake, nonsense):
    fake.events(HI, chunk("stop"), {"choices": [], "usage": nonsense})
    assert (await said(fake.provider()))[-1] == TurnFinished("stop", None)


async def test_invalid_usage_does_not_replace_a_valid_one(fake):
    count = {"prompt_tokens": 5, "completion_tokens": 2}
    fake.events(HI, {"choices": [], "usage": count}, {"choices": [], "usage": 7})
    assert (await said(fake.provider()))[-1].usage == Usage(5, 2)
