"""What a line took, as it is kept: calls within calls, long texts cut."""

from collections.abc import Iterable, Sequence
from typing import Any

from core.text import redaction
from core.trace import Call
from telemetry.presentation import turn_serializers
from telemetry.storage import stored_text

TEXTS = ("arguments", "result", "error")


def kept(made: Sequence[Call], most_bytes: int) -> list[dict[str, Any]]:
    """Return calls as JSON, without our secrets and with no text longer than that."""
    return [_kept(call, most_bytes) for call in turn_serializers.calls(made)]


def _kept(call: dict[str, Any], most_bytes: int) -> dict[str, Any]:
    for name in TEXTS:
        if call.get(name) is not None:
            # Before it is cut, which could leave half of a secret.
            call[name] = stored_text.payload(redaction.own(call[name]), most_bytes)
    if "calls" in call:
        call["calls"] = [_kept(each, most_bytes) for each in call["calls"]]
    return call


def tools(made: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names of the tools and agents that were called, at every depth."""
    found = set()
    for call in made:
        if call["object"] == "tool_call":
            found.add(call["name"])
            if call["kind"] == "subagent":
                found.add(call["target"])
            found |= tools(call["calls"])
    return found
