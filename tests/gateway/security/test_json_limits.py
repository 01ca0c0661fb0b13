"""Bodies with many values are refused before their validation."""

import httpx2
import orjson
import pytest
from pydantic import ValidationError

from gateway.request_validation import json_limits
from gateway.request_validation.json_limits import MAX_KEYS, MAX_VALUES
from gateway.schemas import ChatRequest

PLACES = ("/v1/chat/completions", "/v1/memories", "/v1/tasks", "/v1/feedback", "/mcp")
HELLO = {"role": "user", "content": "Hello"}


@pytest.fixture
def http(server: str):
    with httpx2.Client(base_url=server, timeout=60, verify=False) as client:
        yield client


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": [0] * (MAX_VALUES + 1)}, f"more than {MAX_VALUES:,} values"),
        ([[0] * 1000] * 60, f"more than {MAX_VALUES:,} values"),
        ({f"k{n}": 0 for n in range(MAX_KEYS + 1)}, f"more than {MAX_KEYS:,} keys"),
        ({"a": [{f"k{n}": 0 for n in range(MAX_KEYS + 1)}]}, "keys"),
    ],
)
def test_bodies_of_too_many_values_are_refused(http, path, body, says) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 400
    assert says in answer.text


def test_text_with_many_commas_is_not_counted_as_a_list(server) -> None:
    text = "a," * 500_000
    body = orjson.dumps({"model": "assistant", "messages": [HELLO], "x": text})
    assert json_limits.parse_json(body)["x"] == text


def test_long_conversation_is_accepted() -> None:
    messages = [HELLO] * 5000
    body = orjson.dumps({"model": "assistant", "messages": messages})
    assert len(json_limits.parse_json(body)["messages"]) == 5000


@pytest.mark.parametrize(
    "messages",
    [
        [0] * 1000,
        [{"role": "user", "content": [0] * 1000}],
        [{"role": "system", "content": [{"type": "image"}] * 1000}],
        [{"role": "assistant", "content": [0] * 1000}],
        [{"role": "assistant", "tool_calls": [0] * 1000}],
        [{"role": "tool", "tool_call_id": "x", "content": [0] * 1000}],
    ],
)
def test_message_validation_stops_at_the_first_wrong_item(messages) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate({"model": "assistant", "messages": messages})
    assert caught.value.error_count() < 10


def test_other_lists_stop_at_the_first_wrong_item() -> None:
    for name in ("modalities", "stop", "tools"):
        fields = {"model": "assistant", "messages": [HELLO], name: [{}] * 1000}
        with pytest.raises(ValidationError) as caught:
            ChatRequest.model_validate(fields)
        assert caught.value.error_count() < 10, name
