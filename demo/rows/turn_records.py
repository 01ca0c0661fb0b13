"""Records and transcripts of turns."""

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
from memory.transcript.message_rows import NewMessage
from telemetry.models import ModelCall as ModelCallRow
from telemetry.models import ToolCall as ToolCallRow
from telemetry.models import Turn
from telemetry.storage import row_mapping


@dataclass(frozen=True)
class TurnContext:
    """The user of a turn, and its circumstances."""

    user_id: UserId
    thread: str = ""
    experiment: str = ""
    origin: str = "chat"
    token_id: uuid.UUID | None = None
    is_streamed: bool = True
    recalled: Sequence[str] = ()


def record(
    inserts: BulkInsert, turn: SimulatedTurn, context: TurnContext
) -> int | None:
    """Write the record of a turn; return its cost."""
    usage, cost = simulated_turns.total_usage(turn.calls)
    calls = [*row_mapping.flatten_calls(turn.calls)]
    model_calls = [call for *_, call in calls if isinstance(call, ModelCall)]
    inserts.add(
        Turn,
        **_turn(turn, context),
        cost_micro_usd=cost,
        known_cost_micro_usd=sum(call.cost_micro_usd or 0 for call in model_calls),
        model_calls=len(model_calls),
        tool_calls=len(calls) - len(model_calls),
        **_usage(usage),
    )
    for position, parent, depth, call in calls:
        columns: dict[str, Any] = {
            "turn_id": turn.turn_id,
            "position": position,
            "parent_position": parent,
            "started_at": call.started_at,
            "seconds": call.seconds,
            "error": call.error,
        }
        if isinstance(call, ModelCall):
            inserts.add(ModelCallRow, **columns, **_model_call(call))
        else:
            inserts.add(ToolCallRow, **columns, **_tool_call(call), depth=depth)
    return cost


def _turn(turn: SimulatedTurn, context: TurnContext) -> dict[str, Any]:
    return {
        "id": turn.turn_id,
        "user_id": context.user_id,
        "thread": context.thread,
        "agent": turn.agent,
        "experiment": context.experiment or None,
        "origin": context.origin,
        "user_message": turn.question,
        "is_streamed": context.is_streamed,
        "started_at": turn.started_at,
        "seconds": turn.seconds,
        "outcome": turn.outcome,
        "finish_reason": turn.finish_reason,
        "error": turn.error,
        "request_id": f"req_{turn.turn_id.hex[-12:]}",
        "token_id": context.token_id,
        "recalled": " ".join(context.recalled),
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
    """The growing transcript of one thread."""

    def __init__(self, inserts: BulkInsert, user_id: UserId, name: str) -> None:
        self._inserts = inserts
        self.id = inserts.new_id(Thread)
        self.user_id = user_id
        self.name = name
        self.length = 0
        self.tokens = 0
        """Tokens of the current conversation."""
        self._times: list[datetime] = []

    def add_turn(self, turn: SimulatedTurn) -> None:
        """Add the messages of a turn."""
        self.add_messages(turn.entries, turn.turn_id, turn.ended_at)
        self.tokens += sum(entry.tokens for entry in turn.entries)

    def add_messages(
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
                text=entry.text,
                extra=entry.extra,
                tokens=entry.tokens,
                agent=entry.agent,
                finish_reason=entry.finish_reason,
                importance=entry.importance,
                created_at=at,
            )
            self.length += 1
        self._times = [*self._times[:1], at]

    def close(self) -> None:
        """Write the thread itself, after all of its messages."""
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
