"""Requests of the OpenAI wire."""

import pytest

from core.events import (
    ReasoningBlock,
)
from core.messages import Message, Reasoning, ToolCall
from providers.config import ProviderConfig
from tests.providers.conftest import collect_events
from tests.providers.wires.openai_samples import (
    CALLED,
    PIXEL,
    TOOL,
    official,
    piece,
    sent,
    tools,
)


async def test_request_has_the_url_and_headers_of_the_api(fake):
    await collect_events(fake.provider(headers={"X-Team": "blue-team"}))
    request = fake.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-fake-0123456789"
    assert request.headers["x-team"] == "blue-team"
    assert request.headers["content-type"] == "application/json"


async def test_no_key_sends_no_authorization_header(fake):
    await collect_events(ProviderConfig(kind="openai", base_url=fake.base_url))
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


def image_part(url):
    return {"type": "image_url", "image_url": {"url": url}}


def words(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize("kind", ["cohere", "deepseek", "gemini", "groq", "openai"])
async def test_tool_images_follow_their_results(fake, kind):
    looked = Message(
        "assistant",
        tool_calls=(ToolCall("1", "look", "{}"), ToolCall("2", "draw", "{}")),
    )
    said_and_seen = Message(
        "tool", [words("Here:"), image_part(PIXEL)], tool_call_id="1"
    )
    seen = [image_part(PIXEL), image_part("https://x.test/a.gif")]
    only_seen = Message("tool", seen, tool_call_id="2")
    after = Message("assistant", "I see."), Message("user", "And?")
    messages = [Message("user", "Look"), looked, said_and_seen, only_seen, *after]
    body = await sent(fake, kind, messages=messages)
    assert [m["role"] for m in body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
        "user",
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
                image_part(PIXEL),
                words("(returned by the tool 'draw')"),
                *seen,
            ],
        },
    ]


async def test_images_of_the_last_result_follow_it(fake):
    seen = Message("tool", [image_part(PIXEL)], tool_call_id="call_1")
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
        (
            image_part("data:image/svg+xml;base64,PHN2Zz4="),
            "(image/svg+xml, not shown)",
        ),
        (image_part("data:,x"), "(an image, not shown)"),
        (image_part("data:image/png,x"), "(an image, not shown)"),
        (image_part("ftp://x.test/a.png"), "(an image, not shown)"),
        ({"type": "input_audio", "input_audio": {}}, "(input_audio, not shown)"),
    ],
)
async def test_unsupported_media_is_named_in_the_result(fake, part, becomes):
    result = Message("tool", [part], tool_call_id="call_1")
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, result])
    (message,) = body["messages"][2:]
    assert message["content"].startswith(becomes)


async def test_image_mime_type_is_normalised(fake):
    result = Message(
        "tool", [image_part("data:IMAGE/JPG;base64,/9j/")], tool_call_id="1"
    )
    body = await sent(fake, messages=[Message("user", "Look"), CALLED, result])
    assert body["messages"][3]["content"][1] == image_part(
        "data:image/jpeg;base64,/9j/"
    )


async def test_groq_receives_no_message_names(fake):
    messages = [Message("user", "Hi", name="ada")]
    assert "name" not in (await sent(fake, "groq", messages=messages))["messages"][0]
    assert (await sent(fake, messages=messages))["messages"][0]["name"] == "ada"


async def test_deepseek_receives_reasoning_of_its_calls(fake):
    reasoning_message = Message(
        "assistant", tool_calls=CALLED.tool_calls, reasoning=(Reasoning("hm"),)
    )
    talk = Message("assistant", "yes", reasoning=(Reasoning("hm"),))
    messages = [reasoning_message, CALLED, talk]
    body = await sent(fake, "deepseek", messages=messages)
    given = [message.get("reasoning_content") for message in body["messages"]]
    assert given == ["hm", "", None]
    body = await sent(fake, "openai", messages=messages)
    assert not any("reasoning_content" in message for message in body["messages"])


async def test_gemini_receives_the_signatures_of_its_calls(fake):
    extra = {"google": {"thought_signature": "c2ln"}}
    fake.events(tools(piece("{}", "add", id="a", extra_content=extra), finish="stop"))
    events = await collect_events(fake.provider("gemini"))
    (block,) = [event.block for event in events if isinstance(event, ReasoningBlock)]
    message = Message("assistant", tool_calls=CALLED.tool_calls, reasoning=(block,))
    body = await sent(fake, "gemini", messages=[message])
    assert body["messages"][0]["tool_calls"][0]["extra_content"] == extra


async def test_large_request_is_sent_completely(fake):
    text = "x" * 1_500_000
    body = await sent(fake, messages=[Message("user", text)])
    assert body["messages"][0]["content"] == text
