"""The calls of one round: whose they are, and what the agent's own tools answer."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core import trace
from core.errors import CoulisseError
from core.events import ToolCallDelta
from core.messages import Message, ToolCall
from core.tools import Tool

MAX_RESULT_LENGTH = 32_000
"""Characters of a result the model is told."""

logger = logging.getLogger(__name__)


class Screen:
    """Lets the pieces of the client's calls through, and keeps back the agent's own.

    A call's first pieces may come without its name; they wait for it.
    """

    def __init__(self, own: Mapping[str, Tool]) -> None:
        self._own = own
        self._shown: dict[int, int] = {}
        """The index the client sees, by the model's."""
        self._waiting: dict[int, list[ToolCallDelta]] = {}
        self._hidden: set[int] = set()

    def pass_on(self, piece: ToolCallDelta) -> Sequence[ToolCallDelta]:
        """Return the pieces that may go to the client now."""
        if piece.index in self._hidden:
            return ()
        if piece.index in self._shown:
            return [self._renumbered(piece)]
        pieces = self._waiting.setdefault(piece.index, [])
        pieces.append(piece)
        if not piece.name:
            return ()
        del self._waiting[piece.index]
        if piece.name in self._own:
            self._hidden.add(piece.index)
            return ()
        self._shown[piece.index] = len(self._shown)
        return [self._renumbered(each) for each in pieces]

    def _renumbered(self, piece: ToolCallDelta) -> ToolCallDelta:
        return ToolCallDelta(
            self._shown[piece.index], piece.id, piece.name, piece.arguments
        )


async def answer(calls: Sequence[ToolCall], own: Mapping[str, Tool]) -> list[Message]:
    """Run calls of the agent's own tools at once and return their results, in order.

    A tool that fails answers the model with what went wrong.
    """
    results = await asyncio.gather(*(_result(call, own) for call in calls))
    return [
        Message("tool", result, tool_call_id=call.id)
        for call, result in zip(calls, results, strict=True)
    ]


async def _result(call: ToolCall, own: Mapping[str, Tool]) -> str:
    try:
        record = trace.ToolCall(call.name, own[call.name].kind, call.arguments)
        return _cut(str(await own[call.name].call(_arguments(call), record)))
    except CoulisseError as exc:
        return f"Error: {exc}"
    except Exception:
        logger.exception("tool %s failed", call.name)
        return "Error: the tool failed; it may be tried again"


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError as exc:
        raise CoulisseError(f"the arguments are not valid JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise CoulisseError("the arguments must be a JSON object")
    return arguments


def _cut(result: str) -> str:
    if len(result) <= MAX_RESULT_LENGTH:
        return result
    return (
        f"{result[:MAX_RESULT_LENGTH]}\n(cut: the result has {len(result)} characters)"
    )
