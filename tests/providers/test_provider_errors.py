"""Error statuses and error objects of providers map to our errors, without secrets."""

import contextlib
import traceback

import orjson
import pytest

from core.errors import CoulisseError, Invalid, Upstream
from providers.config import ProviderConfig
from providers.errors import (
    BrokenReply,
    KeyRefused,
    ModelUnknown,
    OutOfCredit,
    Overloaded,
    ProviderDisconnected,
    ProviderFailed,
    RateLimited,
    RequestRefused,
)
from providers.resilience import error_mapping
from providers.resilience.error_mapping import ProviderSource
from tests.providers.conftest import collect_events, model_request

SECRET = "sk-very-secret-0123456789"
TEAM_KEY = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
TEAM = f"Token {TEAM_KEY}"
ACME = ProviderConfig(
    kind="openai",
    api_key=SECRET,
    base_url="http://127.0.0.1:1/v1",
    headers={"X-Team": TEAM},
)
SOURCE = ProviderSource("acme", ACME, "the-model")


@pytest.mark.parametrize("status", [*range(300, 600)])
def test_every_status_maps_to_a_coulisse_error(status: int):
    error = error_mapping.from_status(SOURCE, status, {}, b"<html>")
    assert isinstance(error, (RequestRefused, ProviderFailed))
    assert error.provider == "acme"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (307, BrokenReply),
        (400, RequestRefused),
        (401, KeyRefused),
        (402, OutOfCredit),
        (403, KeyRefused),
        (404, ModelUnknown),
        (408, Overloaded),
        (413, RequestRefused),
        (422, RequestRefused),
        (429, RateLimited),
        (500, Overloaded),
        (503, Overloaded),
        (529, Overloaded),
    ],
)
def test_statuses_map_to_specific_errors(status: int, expected: type[CoulisseError]):
    assert type(error_mapping.from_status(SOURCE, status, {}, b"")) is expected


def refusal(body, status: int = 400) -> CoulisseError:
    return error_mapping.from_status(SOURCE, status, {}, orjson.dumps(body))


def test_refusal_keeps_message_param_and_code():
    error = refusal(
        {
            "error": {
                "message": "At most 8192 tokens",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        }
    )
    assert isinstance(error, Invalid)
    assert "At most 8192 tokens" in error.message
    assert error.code == "context_length_exceeded"
    assert isinstance(error, RequestRefused)
    assert error.param == "messages"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too bad", "code": 400}},
        {"error": "too bad"},
        [{"error": {"message": "too bad", "status": "INVALID_ARGUMENT"}}],
        {"message": "too bad"},
        {"detail": "too bad"},
        {"type": "error", "error": {"type": "x", "message": "too bad"}},
        "too bad",
    ],
)
def test_every_error_object_format_is_read(body):
    error = refusal(body)
    assert "too bad" in error.message
    assert error.code is None


@pytest.mark.parametrize("body", [None, [], {}, {"error": None}, {"error": {}}, 3])
def test_error_without_message_is_still_mapped(body):
    assert isinstance(refusal(body), RequestRefused)


def test_long_error_message_is_truncated():
    assert len(refusal({"error": {"message": "x" * 10_000}}).message) < 1000


def test_unknown_model_error_names_the_model():
    error = refusal({"error": {"message": "no such thing"}}, 404)
    assert "'the-model'" in error.message
    assert "providers.acme.base_url" in error.detail
    assert "providers.acme" not in error.message


def test_gemini_400_for_a_wrong_key_is_a_refused_key():
    body = [{"error": {"code": 400, "message": "API key not valid. Please pass…"}}]
    assert isinstance(refusal(body), KeyRefused)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error"}, Overloaded),
        ({"type": "api_error"}, Overloaded),
        ({"type": "rate_limit_error"}, RateLimited),
        ({"code": "insufficient_quota"}, OutOfCredit),
        ({"type": "authentication_error"}, KeyRefused),
        ({"type": "invalid_request_error"}, RequestRefused),
        ({"code": 503, "status": "RESOURCE_EXHAUSTED"}, RateLimited),
        ("sorry", Overloaded),
    ],
)
async def test_stream_error_objects_map_to_specific_errors(fake, error, expected):
    fake.events({"error": error})
    with pytest.raises(CoulisseError) as caught:
        await collect_events(fake.provider(retries=0))
    assert type(caught.value) is expected


@pytest.mark.parametrize("stream", [True, False])
async def test_error_object_with_status_200_is_an_error(fake, stream: bool):
    fake.raw('{"error": {"message": "sorry", "type": "server_error"}}')
    with pytest.raises(Overloaded, match="sorry"):
        await collect_events(fake.provider(retries=0), model_request(stream=stream))


@pytest.mark.parametrize("stream", [True, False])
async def test_html_page_is_a_broken_reply(fake, stream: bool):
    fake.raw("<html>Welcome</html>", content_type="text/html")
    with pytest.raises(BrokenReply, match=r"providers\.acme\.base_url"):
        await collect_events(fake.provider(), model_request(stream=stream))


@pytest.mark.parametrize("data", ["{", '{"choices": [', "null", "[]", "\ud83d"])
async def test_broken_json_in_a_stream_is_an_error(fake, data: str):
    body = b"data: " + data.encode(errors="surrogatepass") + b"\n\n"
    fake.raw(body, content_type="text/event-stream")
    with pytest.raises(Upstream):
        await collect_events(fake.provider(retries=0))


@pytest.mark.parametrize("place", ["headers", "first_token", "mid_stream"])
async def test_cut_connection_is_an_error(fake, place):
    fake.cut(place)
    with pytest.raises(ProviderDisconnected, match="broke the connection"):
        await collect_events(fake.provider(retries=0))


async def test_truncated_whole_reply_is_an_error(fake):
    fake.cut("mid_stream")
    with pytest.raises(ProviderDisconnected):
        await collect_events(fake.provider(retries=0), model_request(stream=False))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [True, False])
async def test_endless_reply_is_an_error(fake, monkeypatch, kind: str, stream: bool):
    monkeypatch.setattr(error_mapping, "MAX_REPLY_BYTES", 64 * 1024)
    fake.reply(*["word " * 1000] * 20)
    with pytest.raises(BrokenReply, match=r"is longer than 0\.0625 MiB") as caught:
        await collect_events(fake.provider(kind), model_request(stream=stream))
    assert caught.value.retryable is False
    assert len(fake.requests) == 1


@pytest.mark.parametrize("body", ["data: " + "x" * 1_000, "data: x\n" * 1_000])
async def test_endless_event_is_an_error(fake, monkeypatch, body: str):
    monkeypatch.setattr(error_mapping, "MAX_REPLY_BYTES", 999)
    fake.raw(body, content_type="text/event-stream")
    with pytest.raises(BrokenReply, match="is longer than"):
        await collect_events(fake.provider(retries=0))


WRONG = [
    "text",
    7,
    {"choices": 7},
    {"choices": {"index": 0}},
    {"choices": ["text"]},
    {"choices": [{"delta": "text", "message": "text"}]},
    {"choices": [{"delta": {"tool_calls": [{"function": "add"}]}}]},
    {"choices": [{"message": {"tool_calls": [{"function": 7}]}}]},
    {"usage": "many", "choices": [{"message": {"content": "Hi"}}]},
    {"usage": {"prompt_tokens": "many"}, "choices": [{"message": {"content": "Hi"}}]},
    {"content": [7]},
    {"content": [{"type": "text", "text": 7}], "usage": 7},
    {"type": "message_start", "message": "text"},
    {"type": "content_block_delta", "delta": "text"},
    {"type": "content_block_start", "content_block": 7},
]


@pytest.mark.parametrize("payload", WRONG, ids=repr)
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [True, False])
async def test_json_of_another_shape_is_a_broken_reply(
    fake, kind: str, payload, stream: bool
):
    if stream:
        fake.events(payload, done=False)
    else:
        fake.raw(orjson.dumps(payload))
    with contextlib.suppress(Upstream):
        assert await collect_events(
            fake.provider(kind, retries=0), model_request(stream=stream)
        )


async def test_error_beside_choices_keeps_its_message(fake):
    choice = {"delta": {"content": ""}, "finish_reason": "error"}
    fake.events({"error": {"message": "gave up", "code": 502}, "choices": [choice]})
    with pytest.raises(Overloaded, match="gave up"):
        await collect_events(fake.provider(retries=0))


# Secrets.


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500, 503])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_errors_show_no_secrets(fake, kind: str, status: int, caplog):
    words = f"wrong key {SECRET} for {TEAM}, that is {TEAM_KEY}"
    fake.fail(status, words, code=SECRET, param=SECRET)
    provider = fake.provider(kind, api_key=SECRET, headers={"X-Team": TEAM}, retries=0)
    with pytest.raises(CoulisseError) as caught:
        await collect_events(provider)
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + caplog.text
    shown += f"{error!r} {error.code} {getattr(error, 'param', '')}"
    assert SECRET not in shown
    assert TEAM_KEY not in shown


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_key_error_names_the_setting(fake, status: int):
    fake.fail(status, "the provider's own words")
    with pytest.raises(KeyRefused, match=r"check providers\.acme\.api_key") as caught:
        await collect_events(fake.provider())
    assert "own words" not in caught.value.message
