"""Sample turns and calls to store."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from core.events import Usage
from core.ids import UserId, new_turn_id
from core.trace import Call, ModelCall, TracedToolCall
from telemetry.config import SqliteConfig, TelemetryConfig
from telemetry.storage import turn_store
from telemetry.types import TurnRecord

NOON = datetime(2026, 5, 6, 12, 0, 0, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SETTINGS = TelemetryConfig()


def model_call(agent: str = "assistant", **fields: Any) -> ModelCall:
    """Return a successful model call."""
    given = {
        "started_at": NOON,
        "seconds": 0.5,
        "usage": Usage(100, 20, 64, 32, 8),
        "finish_reason": "stop",
        "cost_micro_usd": 125,
        **fields,
    }
    return ModelCall(agent, **{"provider": "openai", "model": "gpt-test", **given})


def tool_call(name: str = "add", *calls: Call, **fields: Any) -> TracedToolCall:
    """Return a successful tool call that contains `calls`."""
    given = {
        "kind": "mcp",
        "arguments": '{"a": 1}',
        "id": f"call_{name}",
        "target": "calculator",
        "started_at": NOON,
        "seconds": 0.25,
        "result": "2",
        **fields,
    }
    return TracedToolCall(name, calls=list(calls), **given)


def make_record(*calls: Call, **fields: Any) -> TurnRecord:
    """Return the record of a turn with these calls."""
    given = {
        "turn_id": new_turn_id(),
        "user_id": UserId(uuid.uuid4()),
        "thread": "",
        "agent": "assistant",
        "experiment": "",
        "origin": "chat",
        "user_message": "What is 1 + 1?",
        "is_streamed": False,
        "started_at": NOON,
        "seconds": 1.25,
        "outcome": "ok",
        "finish_reason": "stop",
        "error": None,
        "request_id": "req-1",
        "token_id": None,
        "cost_micro_usd": 1_500,
        "usage": Usage(200, 40, 128, 64, 16),
        "recalled_fact_ids": ["mem_1", "mem_2"],
        **fields,
    }
    return TurnRecord(**given, calls=calls)


def store_turn(*calls: Call, **fields: Any) -> TurnRecord:
    """Store a turn, and return its record."""
    record = make_record(*calls, **fields)
    turn_store.insert(record, SETTINGS)
    return record


def settings(**fields: Any) -> TelemetryConfig:
    return TelemetryConfig(sqlite=SqliteConfig(**fields))


def nested_calls() -> list[Call]:
    """Return calls of all kinds: in sequence, nested, interrupted, failed."""
    return [
        model_call(finish_reason="tool_calls"),
        tool_call("add"),
        tool_call(
            "ask_researcher",
            model_call("researcher", finish_reason="tool_calls"),
            tool_call(
                "ask_librarian",
                model_call("librarian", usage=None, error="429", seconds=0.1),
                kind="subagent",
                target="librarian",
                result=None,
                error="the librarian failed",
            ),
            tool_call("search", kind="memory", target="", result="nothing"),
            model_call("researcher"),
            kind="subagent",
            target="researcher",
        ),
        tool_call("slow", seconds=None, result=None),
        model_call(),
    ]
