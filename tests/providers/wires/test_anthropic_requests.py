"""Requests of the Anthropic wire."""

import pytest

from core.errors import Invalid
from core.messages import Message, Reasoning, ToolCall
from providers.wires.anthropic_body import (
    CACHE_SYSTEM_CHARS,
    DEFAULT_MAX_TOKENS,
    THINKING_BUDGETS,
    has_adaptive_thinking,
)
from tests.providers.conftest import collect_events, model_request
from tests.providers.wires.anthropic_samples import (
    NEW,
    OLD,
    PARAMETERS,
    PIXEL,
    TOOL,
    body,
    given,
    refused,
    text,
)


async def test_request_has_the_url_headers_and_body_of_the_api(fake):
    await collect_events(fake.provider("anthropic"), model_request(user="u-1"))
    request = fake.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["x-api-key"] == "sk-fake-0123456789"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in request.headers
    assert request.body == {
        "model": "the-model",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [text("Hi")]}],
        "metadata": {"user_id": "u-1"},
        "stream": True,
    }


def test_system_messages_are_joined():
    sent = body(
        Message("system", "One."),
        Message("user", "Hi"),
        Message("system", " "),
        Message("system", "Two."),
    )
    assert sent["system"] == "One.\n\nTwo."
    assert sent["messages"] == [{"role": "user", "content": [text("Hi")]}]


def test_a_long_system_prompt_is_cached():
    long = "x" * (CACHE_SYSTEM_CHARS + 1)
    sent = body(
        Message("system", "One."), Message("system", long), Message("user", "a")
    )
    assert sent["system"] == [
        text("One."),
        {**text(long), "cache_control": {"type": "ephemeral"}},
    ]


def test_messages_of_one_role_are_joined_and_the_user_is_first():
    sent = body(
        Message("assistant", "Welcome"),
        Message("user", "a"),
        Message("user", "b"),
        Message("assistant", None),
        Message("user", ""),
    )
    assert sent["messages"] == [
        {"role": "user", "content": [text("(continued)")]},
        {"role": "assistant", "content": [text("Welcome")]},
        {"role": "user", "content": [text("a"), text("b")]},
    ]


def test_empty_conversation_is_refused():
    assert refused(Message("system", "One."), Message("user", " ")).param == "messages"


def test_tool_loop_sends_reasoning_and_results_first():
    thinking = (
        Reasoning("hm", signature="sig"),
        Reasoning("", redacted="secret"),
        Reasoning("unsigned: another provider's"),
    )
    calls = (ToolCall("1", "add", '{"a":1}'), ToolCall("2", "now", ""))
    sent = body(
        Message("user", "Go"),
        Message("assistant", "Let me see", tool_calls=calls, reasoning=thinking),
        Message("user", "and hurry"),
        Message("tool", "2", tool_call_id="1"),
        Message("tool", "", tool_call_id="2"),
    )
    assert sent["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        text("Let me see"),
        {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "2", "name": "now", "input": {}},
    ]
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "1", "content": [text("2")]},
        {"type": "tool_result", "tool_use_id": "2"},
        text("and hurry"),
    ]


def image_part(url: str):
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_images_are_sent_in_their_results(fake, stream: bool):
    calls = (ToolCall("1", "look", "{}"), ToolCall("2", "draw", "{}"))
    jpeg = "data:image/jpg;charset=x;base64,/9j/"
    messages = [
        Message("user", "Look"),
        Message("assistant", tool_calls=calls),
        Message("tool", [text("Here:"), image_part(PIXEL)], tool_call_id="1"),
        Message("tool", [image_part(jpeg)], tool_call_id="2"),
    ]
    call = model_request(messages=messages, stream=stream)
    await collect_events(fake.provider("anthropic"), call)
    png = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    jpeg = {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}
    assert fake.bodies[-1]["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [text("Here:"), {"type": "image", "source": png}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "2",
            "content": [{"type": "image", "source": jpeg}],
        },
    ]


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        (image_part("data:image/svg+xml;base64,PA=="), "(image/svg+xml, not shown)"),
        (image_part("data:image/png,x"), "(an image, not shown)"),
        (image_part("ftp://x.test/a.png"), "(an image, not shown)"),
        ({"type": "input_audio", "input_audio": {}}, "(input_audio, not shown)"),
    ],
)
def test_unsupported_media_is_named_in_the_result(part, becomes):
    sent = body(
        Message("user", "Look"),
        Message("assistant", tool_calls=(ToolCall("1", "look", "{}"),)),
        Message("tool", [part], tool_call_id="1"),
    )
    (result,) = sent["messages"][2]["content"]
    (block,) = result["content"]
    assert block["text"].startswith(becomes)


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "3"])
def test_non_object_arguments_still_make_a_valid_request(arguments: str):
    calls = (ToolCall("1", "add", arguments),)
    sent = body(Message("user", "Go"), Message("assistant", tool_calls=calls))
    assert isinstance(sent["messages"][1]["content"][0]["input"], dict)


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": PIXEL}},
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": "iVBORw0KGgo=",
                },
            },
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
            {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        ),
        (
            {
                "type": "file",
                "file": {
                    "file_data": "data:application/pdf;base64,JVBERg==",
                    "filename": "a.pdf",
                },
            },
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERg==",
                },
                "title": "a.pdf",
            },
        ),
    ],
)
def test_images_and_files_are_translated(part, block):
    sent = body(Message("user", [{"type": "text", "text": "See"}, part]))
    assert sent["messages"][0]["content"] == [text("See"), block]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "ftp://x/a.png"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"text": "no type"},
    ],
)
def test_unsupported_content_parts_are_refused(part):
    assert refused(Message("user", [part])).param == "messages"


def test_tools_are_translated():
    bare = {"type": "function", "function": {"name": "now"}}
    assert body(tools=[TOOL, bare])["tools"] == [
        {"name": "add", "description": "Adds.", "input_schema": PARAMETERS},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize(
    ("parameters", "choice"),
    [
        ({}, None),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
            {"type": "tool", "name": "add"},
        ),
        ({"parallel_tool_calls": True}, None),
        (
            {"parallel_tool_calls": False},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"type": "none"}),
    ],
)
def test_tool_choice_is_translated(parameters, choice):
    assert body(tools=[TOOL], parameters=parameters).get("tool_choice") == choice
    assert "tool_choice" not in body(parameters=parameters)


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 1.7}, {"temperature": 1}),
        ({"top_p": 0.0}, {"top_p": 0.0}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}),
        ({"max_tokens": 0}, {"max_tokens": 0}),
        ({"max_completion_tokens": 7, "max_tokens": 9}, {"max_tokens": 7}),
        ({"store": True, "response_format": {"type": "json_object"}}, {}),
        ({"reasoning_effort": "none"}, {}),
    ],
)
def test_parameters_are_translated(parameters, fields):
    plain = given()
    assert given(**parameters) == {**plain, **fields}


@pytest.mark.parametrize(
    ("parameters", "param"),
    [
        ({"stop": ""}, "stop"),
        ({"stop": ["END", "\n"]}, "stop"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": "low", "temperature": 0}, "temperature"),
    ],
)
def test_unsupported_parameter_values_are_refused(parameters, param: str):
    with pytest.raises(Invalid) as caught:
        given(**parameters)
    assert caught.value.param == param


def test_effort_sets_thinking_budget_for_older_models():
    sent = given(OLD, reasoning_effort="low", max_tokens=100, temperature=1)
    assert sent["thinking"] == {
        "type": "enabled",
        "budget_tokens": THINKING_BUDGETS["low"],
    }
    assert sent["max_tokens"] == THINKING_BUDGETS["low"] + 100


def test_effort_is_passed_on_to_adaptive_models():
    sent = given(NEW, reasoning_effort="minimal", max_tokens=100)
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["output_config"] == {"effort": "low"}
    assert sent["max_tokens"] == 100


@pytest.mark.parametrize(
    ("model", "chooses"),
    [
        ("claude-3-7-sonnet-latest", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-1", False),
        ("claude-haiku-4-5-20251001", False),
        ("claude-sonnet-4-6", True),
        ("claude-opus-4-7", True),
        ("claude-opus-5", True),
        ("a-model-to-come", True),
    ],
)
def test_adaptive_thinking_is_detected_by_model(model: str, chooses: bool):
    assert has_adaptive_thinking(model) is chooses


def test_extra_body_overrides_everything():
    assert body(extra_body={"top_k": 0, "stream": False})["top_k"] == 0
    assert body(extra_body={"stream": False})["stream"] is False
