"""The events of a stored reply, as its client received them."""

from collections.abc import Iterator
from typing import cast

from core.events import (
    Event,
    FinishReason,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
    Usage,
)
from memory.transcript.turn_lookup import VisibleTurn


def events_of(turn: VisibleTurn, usage: Usage | None) -> Iterator[Event]:
    """Yield the events of a reply: all of its text, its calls, its end."""
    if turn.text:
        yield TextDelta(turn.text)
    for index, call in enumerate(turn.tool_calls):
        yield ToolCallDelta(index, call.id, call.name, call.arguments)
    yield TurnFinished(cast(FinishReason, turn.finish_reason), usage)
