"""Streamed replies, frame by frame, and streams that fail."""

import json

import httpx2
import openai
import pytest

from core.events import Usage
from testing.wires import ScriptedAnswer
from tests.conftest import CONFIG
from tests.gateway.calls import (
    DONE,
    PATH,
    body,
    choices,
    frames,
    post,
    refused,
    stored,
    text_of,
)
from tests.gateway.openai_shapes import check

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
USAGE = {"stream_options": {"include_usage": True}}


@BOTH
def test_stream_sends_role_text_and_finish_reason(server, fake, user, agent):
    fake.reply("Hel", "lo")
    read = frames(server, body(user, agent=agent))
    assert [(c["delta"], c["finish_reason"]) for c in choices(read)] == [
        ({"role": "assistant", "content": "", "refusal": None}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo"}, None),
        ({}, "stop"),
    ]
    assert read[-1] == DONE
    assert read.count(DONE) == 1
    assert stored(user) == [("user", "hi", ""), ("assistant", "Hello", "stop")]


@BOTH
def test_chunks_share_id_created_and_model(server, fake, user, agent):
    *chunks, _ = frames(server, body(user, agent=agent, **USAGE))
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    assert chunks[0]["model"] == agent


@BOTH
def test_usage_comes_last_when_requested(server, fake, user, agent):
    fake.reply("a", "b", usage=Usage(70, 30, cache_read_tokens=50))
    *chunks, last, _ = frames(server, body(user, agent=agent, **USAGE))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 70
    assert last["usage"]["completion_tokens"] == 30
    assert last["usage"]["total_tokens"] == 100
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 50}
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
def test_usage_is_absent_unless_requested(server, user, options):
    *chunks, _ = frames(server, body(user, **options))
    assert all(chunk["choices"] for chunk in chunks)
    assert not any("usage" in chunk for chunk in chunks)


def test_provider_is_always_asked_for_usage(server, fake, user):
    frames(server, body(user))
    assert fake.bodies[-1]["stream_options"] == {"include_usage": True}


def test_missing_provider_usage_is_estimated(server, fake, user):
    fake.reply("x" * 400, usage=None)
    *_, last, _ = frames(server, body(user, **USAGE))
    assert 90 <= last["usage"]["completion_tokens"] <= 120
    assert last["usage"]["prompt_tokens"] > 0


@BOTH
def test_tool_calls_are_whole(server, fake, user, agent):
    fake.reply(tool_calls=[("look", {"at": "sky"})])
    tools = [{"type": "function", "function": {"name": "look"}}]
    read = frames(server, body(user, agent=agent, tools=tools))
    (call,) = [
        piece for c in choices(read) for piece in c["delta"].get("tool_calls", ())
    ]
    assert call["function"] == {"name": "look", "arguments": '{"at":"sky"}'}


@BOTH
def test_tool_call_name_is_only_in_its_first_chunk(
    server, configure, fake, user, agent
):
    configure(CONFIG.replace("\n    provider:", "\n    rescue: off\n    provider:"))
    fake.reply(tool_calls=[("add", {"a": 1}), ("look", {"at": "sky"})])
    tools = [
        {"type": "function", "function": {"name": name}} for name in ("add", "look")
    ]
    read = frames(server, body(user, agent=agent, tools=tools))
    pieces = [
        piece for c in choices(read) for piece in c["delta"].get("tool_calls", ())
    ]
    for index, (name, arguments) in enumerate(
        [("add", '{"a":1}'), ("look", '{"at":"sky"}')]
    ):
        first, *others = [p for p in pieces if p["index"] == index]
        assert first["function"]["name"] == name
        assert first["type"] == "function"
        assert first["id"]
        assert others
        assert all(set(p) == {"index", "function"} for p in others)
        assert all(set(p["function"]) == {"arguments"} for p in others)
        message = "".join(p["function"]["arguments"] for p in [first, *others])
        assert message == arguments
    assert choices(read)[-1]["finish_reason"] == "tool_calls"
    assert choices(read)[-1]["delta"] == {}


@BOTH
def test_reasoning_is_streamed_apart_from_the_text(server, fake, user, agent):
    fake.reply("42", reasoning=["let", " me"])
    deltas = [c["delta"] for c in choices(frames(server, body(user, agent=agent)))]
    assert deltas[1:-1] == [
        {"reasoning_content": "let"},
        {"reasoning_content": " me"},
        {"content": "42"},
    ]
    assert stored(user)[-1] == ("assistant", "42", "stop")


def test_refusal_is_streamed_as_a_refusal(server, fake, user):
    fake.reply(refusal="No.")
    deltas = [c["delta"] for c in choices(frames(server, body(user)))]
    assert {"refusal": "No."} in deltas
    assert stored(user)[-1] == ("assistant", "No.", "stop")


@BOTH
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_finish_reason_is_streamed(server, fake, user, agent, reason):
    fake.reply("some", finish=reason)
    read = frames(server, body(user, agent=agent))
    assert choices(read)[-1]["finish_reason"] == reason


@BOTH
def test_empty_reply_is_a_complete_stream(server, fake, user, agent):
    fake.reply()
    read = frames(server, body(user, agent=agent))
    assert [c["delta"] for c in choices(read)][1:] == [{}]
    assert read[-1] == DONE


def test_headers_disable_proxy_buffering(server, user):
    response = post(server, body(user, stream=True))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache, no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers


@BOTH
def test_text_split_across_tokens_arrives_whole(server, fake, user, agent):
    # The family emoji has several characters of several bytes.
    pieces = ["👩", "\u200d👧", " za", "ż", "ó", "\u2028", "łć\n", "\n\ndata: x\r"]
    fake.reply(*pieces)
    read = frames(server, body(user, agent=agent))
    assert text_of(read) == "".join(pieces)
    assert stored(user)[-1][1] == "".join(pieces)


@BOTH
def test_tokens_are_sent_as_they_arrive(server, fake, user, agent):
    fake.hang("mid_stream", "first", "second")
    request = body(user, agent=agent, stream=True)
    with httpx2.stream("POST", server + PATH, json=request, timeout=60) as response:
        lines = response.iter_lines()
        heard = ""
        while "first" not in heard:
            heard = next(lines)
        fake.release()
        assert "second" in "".join(lines)


@BOTH
async def test_async_client_reads_a_stream(async_client, fake, user, agent):
    fake.reply("Hel", "lo")
    stream = await async_client.chat.completions.create(
        **body(user, agent=agent), stream=True, **USAGE
    )
    chunks = [chunk async for chunk in stream]
    message = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(message) == "Hello"
    assert chunks[-1].usage.total_tokens == 10


def test_client_collects_a_stream_into_a_completion(client, fake, user):
    fake.reply(tool_calls=[("add", {"a": 1, "b": 2})])
    tool = {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object"}},
    }
    with client.chat.completions.stream(**body(user, tools=[tool])) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.arguments == '{"a":1,"b":2}'


# Failures before the first token have an error status.


@BOTH
@pytest.mark.parametrize(
    ("status", "answer"), [(400, 400), (401, 502), (429, 429), (500, 503)]
)
def test_provider_error_before_first_token_is_a_status(
    server, fake, user, agent, status, answer
):
    fake.fail(status)
    refused(server, body(user, agent=agent, stream=True), answer)
    assert stored(user) == []


@BOTH
@pytest.mark.parametrize("place", ["headers", "first_token"])
def test_disconnect_before_first_token_is_502(server, fake, user, agent, place):
    fake.cut(place)
    error = refused(server, body(user, agent=agent, stream=True), 502)
    assert error["code"] == "provider_disconnected"


@BOTH
def test_error_event_before_first_token_is_503(server, fake, user, agent):
    fake.answer(
        ScriptedAnswer((), error={"type": "overloaded_error", "message": "busy"})
    )
    assert refused(server, body(user, agent=agent, stream=True), 503)["message"]


# Later failures are one frame with an error, without a finish reason.


def broken(server, request):
    """Return the text and the final error of a stream."""
    read = frames(server, request)
    *message, failed, done = read
    assert done == DONE
    assert set(failed) == {"error"}
    assert all("error" not in frame for frame in message)
    assert not any(c["finish_reason"] for c in choices(message))
    return text_of(message), failed["error"]


@BOTH
def test_disconnect_mid_stream_is_one_error_frame(server, fake, user, agent):
    fake.cut("mid_stream", "Hel", "lo")
    text, error = broken(server, body(user, agent=agent, **USAGE))
    assert text == "Hel"
    assert error["type"] == "upstream_error"
    assert error["code"] == "provider_disconnected"
    assert stored(user) == [("user", "hi", ""), ("assistant", "Hel", "error")]


@BOTH
def test_stream_without_end_marker_is_an_error(server, fake, user, agent):
    fake.reply("Hel", "lo", unterminated=True)
    text, error = broken(server, body(user, agent=agent))
    assert text == "Hello"
    assert error["code"] == "provider_broken_reply"
    assert stored(user)[-1] == ("assistant", "Hello", "error")


@BOTH
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "overloaded_error", "message": "busy"}, "provider_overloaded"),
        ({"type": "rate_limit_error", "message": "slow"}, "provider_rate_limited"),
        ({"type": "weird", "message": "??"}, "provider_overloaded"),
    ],
)
def test_provider_error_mid_stream_is_passed_on(
    server, fake, user, agent, message, code
):
    fake.reply("Hel", "lo", error=message)
    text, error = broken(server, body(user, agent=agent))
    assert text == "Hello"
    assert error["code"] == code
    assert stored(user)[-1] == ("assistant", "Hello", "error")


@BOTH
def test_malformed_event_mid_stream_is_an_error(server, fake, user, agent):
    good = {
        "assistant": {"choices": [{"index": 0, "delta": {"content": "Hi"}}]},
        "claude": {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Hi"},
        },
    }
    fake.events(good[agent], "{broken")
    text, error = broken(server, body(user, agent=agent))
    assert text == "Hi"
    assert error["code"] == "provider_broken_reply"


def test_internal_error_mid_stream_hides_details(server, fake, user, monkeypatch):
    def fail(*args: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("gateway.openai.sse.ChunkEncoder._tool_call_delta", fail)
    fake.reply("Hel", tool_calls=[("add", {})])
    tool = {"type": "function", "function": {"name": "add"}}
    text, error = broken(server, body(user, tools=[tool]))
    assert text == "Hel"
    assert error["type"] == "server_error"
    assert "secret" not in json.dumps(error)


def test_client_raises_the_stream_error(client, fake, user):
    fake.cut("mid_stream", "Hel", "lo")
    stream = client.chat.completions.create(**body(user), stream=True)
    with stream, pytest.raises(openai.APIError, match="broke the connection"):
        for _ in stream:
            pass


@BOTH
def test_conversation_continues_after_a_broken_reply(server, fake, user, agent):
    fake.cut("mid_stream", "Hel", "lo")
    frames(server, body(user, agent=agent))
    fake.reply("again")
    read = frames(server, body(user, "go on", agent=agent))
    assert text_of(read) == "again"
    assert "Hel" in json.dumps(fake.bodies[-1])


def test_unstreamed_provider_reply_is_streamed_in_chunks(server, fake, user):
    whole = {
        "id": "x",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "finish_reason": "stop",
            }
        ],
    }
    fake.raw(json.dumps(whole))
    read = frames(server, body(user))
    assert text_of(read) == "Hello"
    check("chunk", read[0])
