"""Requests for responses, each answer checked against OpenAI's published shapes."""

import json
from typing import Any

import httpx2
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.gateway.calls import WAIT_SECONDS

PATH = "/v1/responses"
ADD = {
    "type": "function",
    "name": "add",
    "description": "Add numbers",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
RESPONSE = TypeAdapter(Response)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def body(user: str, input: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "assistant", "input": input, "safety_identifier": user, **more}


def post(server: str, request: Any) -> httpx2.Response:
    return httpx2.post(server + PATH, json=request, timeout=WAIT_SECONDS, verify=False)


def respond(server: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a complete response."""
    answer = post(server, request)
    assert answer.status_code == 200, answer.text
    RESPONSE.validate_json(answer.content)
    return answer.json()


def stream(server: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a streamed response."""
    answer = post(server, {**request, "stream": True})
    assert answer.status_code == 200, answer.text
    return read_events(answer.content)


def read_events(content: bytes) -> list[dict[str, Any]]:
    *blocks, rest = content.decode().split("\n\n")
    assert rest == ""
    events = [read_event(block) for block in blocks if not block.startswith(":")]
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    return events


def read_event(block: str) -> dict[str, Any]:
    name, data = block.split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    EVENT.validate_python(event)
    return event


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Return the types of events, without the prefix."""
    return [event["type"].removeprefix("response.") for event in events]


def without_times(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without what differs between two runs."""
    text = json.dumps({**response, "created_at": 0, "completed_at": 0})
    return json.loads(text.replace(response["id"].removeprefix("resp_"), "ID"))
