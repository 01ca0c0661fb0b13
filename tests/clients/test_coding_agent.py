"""The requests of a coding agent such as Claude Code: `/v1/messages`, streamed.

It sends the whole conversation each time. The system's blocks and the last message are
marked for caching, and the results of its tools follow their calls.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.clients.conversations import received
from tests.gateway.calls import threads

MARK = {"cache_control": {"type": "ephemeral"}}
SYSTEM = ["You are a coding agent.", "Be concise.", "Available agents: none."]
READ = {
    "name": "Read",
    "description": "Reads a file from the local filesystem.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "limit": {"type": "integer", "exclusiveMinimum": 0},
        },
        "required": ["file_path"],
        "additionalProperties": False,
    },
}
NOTE = {"file_path": "/tmp/note.txt"}  # only an argument of a tool


@pytest.fixture
def send(address: str, user: str) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that streams a message and returns the events."""

    def send(*messages: dict[str, Any]) -> list[dict[str, Any]]:
        identity = {"device_id": user, "account_uuid": "", "session_id": f"s-{user}"}
        body = {
            "model": "chat",
            "max_tokens": 32000,
            "stream": True,
            "system": [{"type": "text", "text": text, **MARK} for text in SYSTEM],
            "messages": messages,
            "tools": [READ],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "medium"},
            "metadata": {"user_id": json.dumps(identity)},
            "context_management": {"edits": []},
        }
        answer = httpx.post(
            f"{address}/v1/messages",
            params={"beta": "true"},
            json=body,
            headers={
                "x-api-key": "unused",
                "anthropic-version": "2023-06-01",
                "anthropic-beta": "claude-code-20250219",
            },
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        frames = answer.text.removesuffix("\n\n").split("\n\n")
        return [json.loads(frame.partition("\ndata: ")[2]) for frame in frames]

    return send


def text_block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def test_tool_results_continue_the_turn(send, fake, user):
    fake.call_tool("Read", NOTE)
    fake.reply("It ", "is empty.")
    question = {"role": "user", "content": [text_block("What does it say?", **MARK)]}
    events = send(question)
    [start] = [e for e in events if e["type"] == "content_block_start"]
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"}
    arguments = json.loads("".join(delta["partial_json"] for delta in deltas))
    assert (start["content_block"]["name"], arguments) == ("Read", NOTE)
    assert events[-2]["delta"]["stop_reason"] == "tool_use"

    call = {**start["content_block"], "input": arguments}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "", **MARK}
    events = send(
        question,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    )
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "It is empty."
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert received(fake.bodies[-1]) == [
        *(("system", text) for text in SYSTEM),
        ("user", "What does it say?"),
        ("call", ("Read", NOTE)),
        ("tool", ""),
    ]
    assert fake.bodies[-1]["tools"][0]["function"]["parameters"] == READ["input_schema"]
    assert threads(user) == [f"s-{user}"]
