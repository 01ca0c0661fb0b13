"""Turns as rows: the record, and the transcript."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from core.events import Usage
from core.ids import UserId
from core.trace import ModelCall, TracedToolCall
from demo import simulated_turns
from demo.rows.bulk_insert import BulkInsert
from demo.simulated_turns import SimulatedTurn
from memory.models import StoredMessage as MessageRow
from memory.models import Thread
from memory.transcript import message_rows
from memory.transcript.message_rows import NewMessage
from telemetry.models import ModelCall as ModelCallRow
from telemetry.models import ToolCall as ToolCallRow
from telemetry.models import Turn
from telemetry.storage import row_mapping


@dataclass(frozen=True)
class TurnContext:
    """Whose turn it is, and where it was asked."""

    user_id: UserId
    thread: str = ""
    experiment: str = ""
    origin: str = "chat"
    token_id: uuid.UUID | None = None
    is_streamed: bool = True
    recalled: Sequence[str] = ()


def record(
    inserts: BulkInsert, played: SimulatedTurn, whose: TurnContext
) -> int | None:
    """Write the record of a turn; return what it cost."""
    usage, cost = simulated_turns.used(played.calls)
    flat = [*row_mapping.flatten_calls(played.calls)]
    asked = [call for *_, call in flat if isinstance(call, ModelCall)]
    inserts.add(
        Turn,
        **_turn(played, whose),
        cost_micro_usd=cost,
        known_cost_micro_usd=sum(call.cost_micro_usd or 0 for call in asked),
        model_calls=len(asked),
        tool_calls=len(flat) - len(asked),
        **_usage(usage),
    )
    for position, parent, depth, call in flat:
        place: dict[str, Any] = {
            "turn_id": played.turn_id,
            "position": position,
            "parent_position": parent,
            "started_at": call.started_at,
            "seconds": call.seconds,
            "error": call.error,
        }
        if isinstance(call, ModelCall):
            inserts.add(ModelCallRow, **place, **_model_call(call))
        else:
            inserts.add(ToolCallRow, **place, **_tool_call(call), depth=depth)
    return cost


def _turn(played: SimulatedTurn, whose: TurnContext) -> dict[str, Any]:
    return {
        "id": played.turn_id,
        "user_id": whose.user_id,
        "thread": whose.thread,
        "agent": played.agent,
        "experiment": whose.experiment or None,
        "origin": whose.origin,
        "user_message": played.question,
        "is_streamed": whose.is_streamed,
        "started_at": played.started_at,
        "seconds": played.seconds,
        "outcome": played.outcome,
        "finish_reason": played.finish_reason,
        "error": played.error,
        "request_id": f"req_{played.turn_id.hex[-12:]}",
        "token_id": whose.token_id,
        "recalled": " ".join(whose.recalled),
    }


def _model_call(call: ModelCall) -> dict[str, Any]:
    attempts = None
    if len(call.attempts) > 1:
        attempts = orjson.dumps(call.attempts).decode()
    return {
        "agent": call.agent,
        "provider": call.provider,
        "model": call.model,
        "finish_reason": call.finish_reason,
        "attempts": attempts,
        "cost_micro_usd": call.cost_micro_usd,
        **({} if call.usage is None else _usage(call.usage)),
    }


def _tool_call(call: TracedToolCall) -> dict[str, Any]:
    return {
        "name": call.name,
        "kind": call.kind,
        "target": call.target,
        "call_id": call.id,
        "arguments": call.arguments,
        "result": call.result,
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in row_mapping.USAGE_COLUMNS}


class ThreadTranscript:
    """One thread, as its messages come in."""

    def __init__(self, inserts: BulkInsert, user_id: UserId, name: str) -> None:
        self._inserts = inserts
        self.id = inserts.new_id(Thread)
        self.user_id = user_id
        self.name = name
        self.length = 0
        self.tokens = 0
        """Of the newest conversation."""
        self._times: list[datetime] = []

    def say(self, played: SimulatedTurn, first_id: int | None = None) -> None:
        """Add the messages of a turn."""
        self.put(played.entries, played.turn_id, played.ended_at)
        self.tokens += sum(entry.tokens for entry in played.entries)

    def put(
        self, entries: Sequence[NewMessage], turn_id: uuid.UUID, at: datetime
    ) -> None:
        """Add messages of one turn."""
        for entry in entries:
            self._inserts.add(
                MessageRow,
                thread_id=self.id,
                position=self.length,
                turn_id=turn_id,
                role=entry.message.role,
                text=message_rows.stored_text(entry.message),
                extra=message_rows.extra_json(entry),
                tokens=entry.tokens,
                agent=entry.agent,
                finish_reason=entry.finish_reason,
                importance=entry.importance,
                created_at=at,
            )
            self.length += 1
        self._times = [*self._times[:1], at]

    def close(self) -> None:
        """Write the thread itself, once all of it is said."""
        if self._times:
            self._inserts.add(
                Thread,
                id=self.id,
                user_id=self.user_id,
                name=self.name,
                length=self.length,
                created_at=self._times[0],
                updated_at=self._times[-1],
            )
