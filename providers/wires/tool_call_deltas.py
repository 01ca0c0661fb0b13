"""Normalize streamed tool calls of OpenAI-compatible servers."""

import uuid
from typing import Any

import orjson

from core.events import ToolCallDelta


class _Call:
    __slots__ = ("arguments", "id", "index", "is_announced", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.is_announced = False


class ToolCallReader:
    """Normalizes pieces of tool calls: our index, one id and one name for each.

    Servers omit the index, repeat the id in every piece, use one index for parallel
    calls, send a call in one piece, or send the name after the id.
    """

    def __init__(self) -> None:
        self.signature = ""
        """Gemini's signature of its thinking, to send back with the calls."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def feed(self, pieces: Any) -> list[ToolCallDelta]:
        """Return what `delta.tool_calls` adds."""
        if not isinstance(pieces, list):
            return []
        deltas = (self._piece(piece) for piece in pieces if isinstance(piece, dict))
        return [delta for delta in deltas if delta is not None]

    def _piece(self, piece: dict[str, Any]) -> ToolCallDelta | None:
        self._sign(piece.get("extra_content"))
        function = piece.get("function") or {}
        name = function.get("name") or ""
        call = self._find(piece.get("index"), piece.get("id") or "", name)
        return self._add(call, piece.get("id") or "", name, function.get("arguments"))

    def _sign(self, extra: Any) -> None:
        google = extra.get("google") if isinstance(extra, dict) else None
        if isinstance(google, dict) and google.get("thought_signature"):
            self.signature = str(google["thought_signature"])

    def _find(self, index: Any, call_id: str, name: str) -> _Call:
        """Return the call a piece belongs to; one without index continues the last."""
        if isinstance(index, int):
            call = self._by_index.get(index)
        else:
            call = self._without_index(call_id, name)
        if call is None or (name and call_id and call.id and call_id != call.id):
            call = _Call(len(self._calls))
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        return call

    def _without_index(self, call_id: str, name: str) -> _Call | None:
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None)
        return self._calls[-1] if self._calls and not name else None

    def _add(
        self, call: _Call, call_id: str, name: str, arguments: Any
    ) -> ToolCallDelta | None:
        call.id = call.id or call_id
        call.name = call.name or name
        text = _arguments(arguments)
        if call.is_announced:
            return ToolCallDelta(call.index, arguments=text) if text else None
        call.arguments += text
        if not call.name:
            return None
        call.is_announced = True
        call.id = call.id or f"call_{uuid.uuid4().hex[:24]}"
        return ToolCallDelta(call.index, call.id, call.name, call.arguments)


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    # Some servers send the object itself.
    return "" if value is None else orjson.dumps(value).decode()
