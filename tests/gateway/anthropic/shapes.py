"""Requests for messages, each answer checked against the models of Anthropic's SDK."""

import json
from typing import Any

import httpx2
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.gateway.calls import WAIT_SECONDS

PATH = "/v1/messages"
ADD = {
    "name": "add",
    "description": "Add numbers",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def body(user: str, *messages: Any, **more: Any) -> dict[str, Any]:
    return {
        "model": "assistant",
        "max_tokens": 100,
        "messages": list(messages) or [{"role": "user", "content": "hi"}],
        "metadata": {"user_id": user},
        **more,
    }


def post(server: str, request: Any, path: str = PATH, **more: Any) -> httpx2.Response:
    return httpx2.post(
        server + path, json=request, timeout=WAIT_SECONDS, verify=False, **more
    )


def create(server: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a complete message."""
    answer = post(server, request)
    assert answer.status_code == 200, answer.text
    Message.model_validate_json(answer.content, strict=True)
    return answer.json()


def stream(server: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a streamed message, without pings."""
    answer = post(server, {**request, "stream": True})
    assert answer.status_code == 200, answer.text
    *blocks, rest = answer.text.split("\n\n")
    assert rest == ""
    events = [read_event(block) for block in blocks]
    return [event for event in events if event["type"] != "ping"]


def read_event(block: str) -> dict[str, Any]:
    name, data = block.split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    if event["type"] not in ("ping", "error"):
        EVENT.validate_python(event)
    return event


def error(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the error of a response, which must have Anthropic's shape."""
    assert response.status_code == status, response.text
    value = response.json()
    assert value.keys() == {"type", "error", "request_id"}
    assert value["type"] == "error"
    assert value["request_id"] == response.headers["x-request-id"]
    assert value["error"].keys() == {"type", "message"}
    return value["error"]
