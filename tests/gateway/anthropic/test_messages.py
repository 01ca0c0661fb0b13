"""Messages, complete and streamed: text, tools, thinking, images and documents."""

import base64

import anthropic
import pytest

from core.events import Usage
from testing.wires import ScriptedAnswer
from tests.files.samples import pdf
from tests.gateway.anthropic.shapes import ADD, PIXEL, body, create, error, post, stream
from tests.gateway.calls import prompt, stored, threads

pytestmark = pytest.mark.database

PDF = base64.b64encode(pdf("Ham and eggs")).decode()
BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])


@pytest.fixture
def sdk(server):
    with anthropic.Anthropic(base_url=server, api_key="unused", max_retries=0) as sdk:
        yield sdk


def say(text):
    return {"role": "user", "content": text}


@BOTH
def test_message_has_text_usage_and_headers(sdk, fake, user, agent):
    fake.reply("Hel", "lo", usage=Usage(70, 30, cache_read_tokens=50))
    raw = sdk.messages.with_raw_response.create(**body(user, say("Hi"), model=agent))
    message = raw.parse()
    assert message.content[0].text == "Hello"
    assert message.stop_reason == "end_turn"
    assert message.model == agent
    assert message.usage.input_tokens == 20
    assert message.usage.cache_read_input_tokens == 50
    assert message.usage.output_tokens == 30
    assert raw.headers["x-coulisse-attempts"] == "1"
    assert stored(user) == [("user", "Hi", ""), ("assistant", "Hello", "stop")]


@BOTH
def test_stream_helper_returns_the_message(sdk, fake, user, agent):
    fake.reply("Hel", "lo", usage=Usage(70, 30, cache_read_tokens=50))
    with sdk.messages.stream(**body(user, model=agent)) as events:
        assert list(events.text_stream) == ["Hel", "lo"]
        message = events.get_final_message()
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens == 20
    assert message.usage.output_tokens == 30


@pytest.mark.parametrize("make", [create, stream])
def test_stop_sequence_is_reported(server, fake, user, make):
    fake.reply("One, two", stop_sequence="three")
    request = body(user, model="claude", stop_sequences=["three"])
    made = make(server, request)
    end = made if isinstance(made, dict) else made[-2]["delta"]
    assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", "three")


async def test_async_client_streams(server, fake, user):
    fake.reply("Hel", "lo")
    async with (
        anthropic.AsyncAnthropic(base_url=server, api_key="unused") as sdk,
        sdk.messages.stream(**body(user)) as events,
    ):
        assert [text async for text in events.text_stream] == ["Hel", "lo"]


CALLS = [("add", {"a": 1}), ("add", {"a": 2})]
ANSWERS = {
    "text": {"pieces": ("Hel", "lo")},
    "length": {"pieces": ("Hel",), "finish": "length"},
    "filtered": {"pieces": ("Hel",), "finish": "content_filter"},
    "thinking": {"pieces": ("Hel", "lo"), "reasoning": ("Let me", " think")},
    "refusal": {"pieces": (), "refusal": "I cannot"},
    "calls": {"pieces": ("So:",), "tool_calls": CALLS},
    "nothing": {"pieces": ()},
}


@pytest.mark.parametrize(
    ("agent", "case"),
    [
        *(("assistant", case) for case in ANSWERS),
        ("claude", "thinking"),
        ("claude", "calls"),
    ],
)
def test_streamed_message_equals_the_complete_one(sdk, server, fake, user, case, agent):
    request = body(user, tools=[ADD], model=agent)
    fake.answer(ScriptedAnswer(**ANSWERS[case]))
    whole = create(server, request)
    fake.answer(ScriptedAnswer(**ANSWERS[case]))
    with sdk.messages.stream(**request) as events:
        streamed = events.get_final_message().to_dict()
    for name in ("content", "stop_reason", "usage"):
        left = streamed[name]
        if name == "content":
            known = ("type", "text", "thinking", "signature", "name", "input", "data")
            left = [{k: b[k] for k in known if k in b} for b in left]
            right = [{k: b[k] for k in known if k in b} for b in whole[name]]
            assert left == right
        else:
            assert left == whole[name]


def test_stream_sends_every_event(server, fake, user):
    fake.answer(ScriptedAnswer(("So:",), reasoning=("Hm",), tool_calls=[CALLS[0]]))
    kinds = [event["type"] for event in stream(server, body(user, tools=[ADD]))]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    shortened = [kind for i, kind in enumerate(kinds) if kind != kinds[i - 1]]
    assert shortened == [
        "message_start",
        *block * 3,
        "message_delta",
        "message_stop",
    ]


@BOTH
def test_tool_loop_continues_with_results(sdk, fake, user, agent):
    fake.call_tool("add", {"a": 1})
    request = body(user, say("Add"), tools=[ADD], model=agent)
    first = sdk.messages.create(**request)
    (call,) = first.content
    assert first.stop_reason == "tool_use"
    assert (call.name, call.input) == ("add", {"a": 1})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "2"}
    request["messages"] += [
        {"role": "assistant", "content": first.content},
        say([result, {"type": "text", "text": "Go on"}]),
    ]
    fake.reply("It is 2")
    assert sdk.messages.create(**request).content[0].text == "It is 2"
    roles = [message["role"] for message in fake.bodies[-1]["messages"]]
    assert roles[-3:] in (["assistant", "tool", "user"], ["user", "assistant", "user"])


def test_failed_result_is_marked(server, fake, user):
    use = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
    failed = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "no such number"}],
        "is_error": True,
    }
    create(
        server,
        body(
            user,
            say("Add"),
            {"role": "assistant", "content": [use]},
            say([failed]),
            tools=[ADD],
        ),
    )
    assert fake.bodies[-1]["messages"][-1]["content"] == "Error: no such number"


def test_thinking_goes_back_with_its_signature(sdk, fake, user):
    fake.answer(ScriptedAnswer((), reasoning=("Let me think",), tool_calls=[CALLS[0]]))
    request = body(user, say("Add"), tools=[ADD], model="claude", max_tokens=4000)
    request["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    with sdk.messages.stream(**request) as events:
        first = events.get_final_message()
    thinking, call, encrypted = first.content
    assert encrypted.type == "redacted_thinking"
    assert thinking.thinking == "Let me think"
    assert thinking.signature
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "2"}
    request["messages"] += [
        {"role": "assistant", "content": first.content},
        say([result]),
    ]
    sdk.messages.create(**request)
    sent = fake.bodies[-1]["messages"][1]["content"][0]
    assert sent["thinking"] == "Let me think"
    assert sent["signature"] == "signed"
    assert "thinking" in fake.bodies[-1]


@BOTH
def test_images_and_documents_reach_the_model(sdk, fake, user, agent):
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    document = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    text = {"type": "text", "media_type": "text/plain", "data": "A note"}
    content = [
        {"type": "image", "source": image},
        {
            "type": "image",
            "source": {"type": "url", "url": "https://example.com/a.png"},
        },
        {"type": "document", "source": document, "title": "a.pdf"},
        {"type": "document", "source": text, "title": "Notes"},
        {"type": "text", "text": "What is this?"},
    ]
    sdk.messages.create(**body(user, say(content), model=agent))
    sent = fake.bodies[-1]["messages"][-1]["content"]
    kinds = [part["type"] for part in sent]
    expected = {
        "assistant": ["image_url", "image_url", "text", "text", "text", "text"],
        "claude": ["image", "image", "document", "text", "text", "text"],
    }
    assert kinds == expected[agent]
    assert PIXEL in str(sent[0])
    assert [part["text"] for part in sent[3:]] == ["Notes", "A note", "What is this?"]


def test_broken_base64_of_a_document_is_refused(server, fake, user):
    source = {"type": "base64", "media_type": "application/pdf", "data": "abc"}
    content = [{"type": "document", "source": source}]
    answer = post(server, body(user, say(content)))
    assert "valid base64" in error(answer, 400)["message"]
    assert fake.requests == []


def test_parameters_are_passed(server, fake, user):
    create(
        server,
        body(
            user,
            model="claude",
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            stop_sequences=["END"],
            system=[
                {"type": "text", "text": "Be brief"},
                {
                    "type": "text",
                    "text": "Be kind",
                    "cache_control": {"type": "ephemeral"},
                },
            ],
            tools=[{**ADD, "cache_control": {"type": "ephemeral"}}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            service_tier="auto",
            context_management={"edits": []},
        ),
    )
    sent = fake.bodies[-1]
    assert sent["max_tokens"] == 100
    assert (sent["temperature"], sent["top_p"], sent["top_k"]) == (0.5, 0.9, 5)
    assert sent["stop_sequences"] == ["END"]
    assert sent["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert [block["text"] for block in sent["system"]][1:] == ["Be brief", "Be kind"]
    assert sent["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert "context_management" not in sent


def test_output_config_enforces_a_schema(sdk, fake, user):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
    }
    fake.reply('{"a": 1}')
    config = {"format": {"type": "json_schema", "schema": schema}}
    message = sdk.messages.create(**body(user, output_config=config))
    assert message.content[0].text == '{"a": 1}'


def test_sent_history_is_the_conversation(sdk, fake, user):
    messages = [say("One"), {"role": "assistant", "content": "1"}, say("Two")]
    sdk.messages.create(**body(user, *messages))
    assert [text for _, text in prompt(fake.requests[-1])][1:] == ["One", "1", "Two"]


SESSION = "5c1d3ac4-2f6e-4b0e-9a35-0d6f3f0c5f11"


@pytest.mark.parametrize(
    "form",
    [
        "user_{name}_account__session_{session}",
        '{{"device_id":"user_{name}","account_uuid":"","session_id":"{session}"}}',
    ],
    ids=["text", "object"],
)
def test_session_of_a_coding_agent_is_the_thread(sdk, fake, user, form):
    name = user.replace("-", "")
    sdk.messages.create(**body(form.format(name=name, session=SESSION)))
    assert threads(f"user_{name}") == [SESSION]
    sdk.messages.create(
        **body(form.format(name=name, session=SESSION)),
        extra_headers={"X-Coulisse-User": user},
    )
    assert threads(user) == [SESSION]


def test_beta_endpoint_is_the_same(sdk, fake, user):
    fake.reply("Hello")
    message = sdk.beta.messages.create(**body(user), betas=["any-2026-01-01"])
    assert message.content[0].text == "Hello"


def test_failed_stream_ends_with_an_error(server, fake, user):
    fake.cut("mid_stream")
    event = stream(server, body(user))[-1]
    assert event["type"] == "error"
    assert event["error"]["type"] == "api_error"
    assert event["request_id"]


# Token counts.


def test_count_tokens_includes_preamble_and_tools(sdk, user):
    request = {"model": "assistant", "messages": [say("Hello there, how are you?")]}
    headers = {"X-Coulisse-User": user}
    count = sdk.messages.count_tokens
    plain = count(**request, extra_headers=headers).input_tokens
    with_tool = count(**request, tools=[ADD], extra_headers=headers).input_tokens
    assert 10 < plain < 40
    assert with_tool > plain + 10


def test_stream_begins_with_the_estimate(server, fake, user):
    fake.reply("Hi", usage=Usage(70, 30, cache_read_tokens=50))
    request = body(user, tools=[ADD])
    counted = post(server, request, "/v1/messages/count_tokens")
    estimate = counted.json()["input_tokens"]
    first, *_, last, _ = stream(server, request)
    assert first["message"]["usage"]["input_tokens"] == estimate > 10
    assert last["usage"]["input_tokens"] == 20


# Errors.


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [say([{"type": "nonsense"}])]}, "messages[0].content[0].type"),
        (
            {"messages": [say([{"type": "tool_use", "id": "a", "name": "b"}])]},
            "messages[0].content[0]",
        ),
        (
            {
                "messages": [
                    say(
                        [
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "!",
                                },
                            }
                        ]
                    )
                ]
            },
            "messages[0].content[0].source",
        ),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "web_search_20250305",
        ),
        ({"tools": [{"name": "add"}]}, "tools[0].input_schema"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": ["hi"]}, "'messages[0]': must be an object"),
        ({"tool_choice": {"type": "tool", "name": "add"}}, "tool_choice"),
        ({"mcp_servers": [{"url": "https://example.com"}]}, "mcp_servers"),
    ],
)
def test_invalid_request_is_refused_in_anthropics_shape(server, user, change, named):
    problem = error(post(server, {**body(user), **change}), 400)
    assert problem["type"] == "invalid_request_error"
    assert named in problem["message"]


def test_unknown_agents_and_addresses_are_not_found(server, user):
    for path, request in [
        ("/v1/messages", body(user, model="nobody")),
        ("/v1/messages/count_tokens", body(user, model="nobody")),
        ("/v1/messages/batches", {}),
    ]:
        assert error(post(server, request, path), 404)["type"] == "not_found_error"


def test_provider_errors_have_anthropics_shape(server, fake, user):
    fake.fail(429)
    assert error(post(server, body(user)), 429)["type"] == "rate_limit_error"
