"""Stored form of a message's calls: nested, with truncated texts."""

from collections.abc import Iterable, Sequence
from typing import Any

from core.text import redaction
from core.trace import Call, ModelCall
from telemetry.schemas import ModelCallObject, ToolCallObject
from telemetry.storage import stored_text

TEXT_FIELDS = ("arguments", "result", "error")


def serialize_calls(calls: Sequence[Call], max_bytes: int) -> list[dict[str, Any]]:
    """Return calls as JSON, without secrets, each text at most `max_bytes` long."""
    objects = [
        ModelCallObject.serialize(call)
        if isinstance(call, ModelCall)
        else ToolCallObject.serialize(call)
        for call in calls
    ]
    return [_truncate_call(each, max_bytes) for each in objects]


def _truncate_call(call: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    for name in TEXT_FIELDS:
        if call.get(name) is not None:
            # Before truncation, which could leave half of a secret.
            call[name] = stored_text.truncate_payload(
                redaction.redact_own(call[name]), max_bytes
            )
    if "calls" in call:
        call["calls"] = [_truncate_call(each, max_bytes) for each in call["calls"]]
    return call


def tool_names(calls: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names of the tools and agents that were called, at every depth."""
    found = set()
    for call in calls:
        if call["object"] == "tool_call":
            found.add(call["name"])
            if call["kind"] == "subagent":
                found.add(call["target"])
            found |= tool_names(call["calls"])
    return found
