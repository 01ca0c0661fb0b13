"""Content filters of providers have their own error, in every format."""

import orjson
import pytest

from core.events import TextDelta, ToolCallDelta, TurnFinished
from providers.errors import BrokenReply, ContentFiltered, KeyRefused, Overloaded
from tests.providers.conftest import collect_events, model_request

EITHER = pytest.mark.parametrize("stream", [True, False])
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])

AZURE = {
    "message": "The response was filtered",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "innererror": {"code": "ResponsibleAIPolicyViolation"},
}
AZURE_INNER = {"message": "No.", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
ANTHROPIC = {
    "type": "invalid_request_error",
    "message": "Output blocked by content filtering policy",
}
OPENROUTER = {
    "message": "Your input was flagged",
    "code": 403,
    "metadata": {"reasons": ["violence"], "flagged_input": "…"},
}
REASONING = {"message": "Invalid prompt: flagged", "code": "invalid_prompt"}


@EITHER
@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("openai", 400, AZURE),
        ("openai", 400, AZURE_INNER),
        ("openai", 400, REASONING),
        ("openai", 400, {"message": "no", "code": "content_policy_violation"}),
        ("openai", 403, OPENROUTER),
        ("gemini", 400, {"message": "no", "status": "PROHIBITED_CONTENT"}),
        ("anthropic", 400, ANTHROPIC),
    ],
)
async def test_filter_refusal_by_status_is_recognised(
    fake, kind, status, error, stream
):
    fake.raw(orjson.dumps({"error": error}), status=status)
    with pytest.raises(ContentFiltered) as caught:
        await collect_events(fake.provider(kind), model_request(stream=stream))
    assert caught.value.code == "content_filter"
    assert caught.value.provider == "acme"
    assert error["message"] in caught.value.message
    # It is not asked again, either.
    assert len(fake.requests) == 1


@pytest.mark.parametrize("shape", ['{"error": "%s"}', '{"detail": "%s"}', '"%s"'])
async def test_filter_message_without_code_is_recognised(fake, shape):
    fake.raw(shape % ANTHROPIC["message"], status=502)
    with pytest.raises(ContentFiltered, match="content filtering policy"):
        await collect_events(fake.provider())


@BOTH
@EITHER
async def test_filter_refusal_inside_a_reply_is_recognised(fake, kind, stream):
    error = ANTHROPIC if kind == "anthropic" else AZURE
    fake.reply(error=error)
    with pytest.raises(ContentFiltered):
        await collect_events(fake.provider(kind), model_request(stream=stream))


@BOTH
@EITHER
@pytest.mark.parametrize("pieces", [("Once ", "upon"), ()])
async def test_filter_finish_reason_ends_a_reply(fake, kind, stream, pieces):
    fake.reply(*pieces, finish="content_filter")
    events = await collect_events(fake.provider(kind), model_request(stream=stream))
    assert events[-1].reason == "content_filter"
    text = "".join(each.text for each in events if isinstance(each, TextDelta))
    assert text == "".join(pieces)


@EITHER
@pytest.mark.parametrize(
    "word",
    [
        "SAFETY",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "RECITATION",
        "SPII",
        "content_filter: PROHIBITED_CONTENT",
    ],
)
async def test_gemini_finish_reasons_are_translated(fake, word, stream):
    fake.reply(finish=word)
    events = await collect_events(fake.provider("gemini"), model_request(stream=stream))
    assert events[-1].reason == "content_filter"


COUNT = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
EMPTY = {"object": "chat.completion", "choices": [], "usage": COUNT}


async def test_gemini_empty_stream_is_a_blocked_prompt(fake):
    fake.default = fake.events(EMPTY)
    (end,) = await collect_events(fake.provider("gemini"))
    assert (end.reason, end.usage.input_tokens) == ("content_filter", 9)
    fake.raw(b'{"choices": [], "usage": {"prompt_tokens": 9}}')
    (end,) = await collect_events(fake.provider("gemini"), model_request(stream=False))
    assert (end.reason, end.usage.input_tokens) == ("content_filter", 9)


async def test_stream_cut_before_text_is_not_a_block(fake):
    fake.events(EMPTY, done=False)
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider("gemini", retries=0))


async def test_stream_cut_after_usage_is_not_a_block(fake):
    words = {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    fake.events(EMPTY, words, done=False)
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider("gemini", retries=0))


@EITHER
async def test_empty_choices_of_other_kinds_are_a_broken_reply(fake, stream):
    fake.raw(b'{"choices": []}')
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider(retries=0), model_request(stream=stream))
    fake.events(EMPTY)
    with pytest.raises(BrokenReply):
        await collect_events(fake.provider(retries=0))


@EITHER
async def test_gemini_malformed_call_is_an_error(fake, stream):
    fake.reply(finish="MALFORMED_FUNCTION_CALL")
    with pytest.raises(Overloaded):
        await collect_events(
            fake.provider("gemini", retries=0), model_request(stream=stream)
        )


@EITHER
async def test_refused_key_is_not_a_filter_refusal(fake, stream):
    fake.fail(403, "not allowed", metadata={"provider_name": "x"})
    with pytest.raises(KeyRefused):
        await collect_events(fake.provider(), model_request(stream=stream))


async def test_filtered_tool_call_is_dropped(fake):
    fake.call_tool("add", {"a": 1}, finish="content_filter")
    events = await collect_events(fake.provider())
    assert any(isinstance(event, ToolCallDelta) for event in events)
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reason == "content_filter"
