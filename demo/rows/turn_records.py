"""Records and transcripts of turns."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from core.events import Usage
from core.ids import UserId
from core.trace import ModelCall
from demo import simulated_turns
from demo.rows.bulk_insert import BulkInsert, columns_of
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
        id=turn.turn_id,
        **columns_of(turn, "agent", "started_at", "seconds", "outcome"),
        **columns_of(turn, "finish_reason", "error"),
        **columns_of(context, "user_id", "thread", "origin", "is_streamed", "token_id"),
        experiment=context.experiment or None,
        user_message=turn.question,
        request_id=f"req_{turn.turn_id.hex[-12:]}",
        recalled=" ".join(context.recalled),
        diagnostics_json=orjson.dumps(_diagnostics(turn, context)).decode(),
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
            **columns_of(call, "started_at", "seconds", "error"),
        }
        if isinstance(call, ModelCall):
            inserts.add(ModelCallRow, **columns, **_model_call(call))
        else:
            names = ("name", "kind", "target", "arguments", "result")
            columns |= columns_of(call, *names)
            inserts.add(ToolCallRow, **columns, call_id=call.id, depth=depth)
    return cost


def _model_call(call: ModelCall) -> dict[str, Any]:
    attempts = None
    if len(call.attempts) > 1:
        attempts = orjson.dumps(call.attempts).decode()
    return {
        **columns_of(call, "agent", "provider", "model"),
        **columns_of(call, "finish_reason", "cost_micro_usd"),
        "attempts": attempts,
        **({} if call.usage is None else _usage(call.usage)),
    }


def _diagnostics(turn: SimulatedTurn, context: TurnContext) -> dict[str, Any]:
    """Return numbers like those of a small server."""
    facts = len(context.recalled)
    # Varies from turn to turn, but not from demo to demo.
    scale = 1 + turn.turn_id.int % 100 / 100
    first_call = next((call.seconds or 0.0 for call in turn.calls), 0.0)
    prepare_seconds = 0.004 * scale
    return {
        "recall": "both",
        "corpus": "small",
        "embedder": "minilm",
        "facts": facts,
        "embedding_seconds": 0.002 * scale,
        "database_seconds": 0.0015 * scale,
        "read_seconds": 0.001 * scale,
        "prepare_seconds": prepare_seconds,
        "first_event_seconds": prepare_seconds + first_call / 3,
        "save_seconds": 0.0008 * scale,
    }


def _usage(usage: Usage) -> dict[str, int]:
    return columns_of(usage, *row_mapping.USAGE_COLUMNS)


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

    @property
    def updated_at(self) -> datetime:
        """The time of its last message."""
        return self._times[-1]

    def add_turn(self, turn: SimulatedTurn) -> None:
        self.add_messages(turn.entries, turn.turn_id, turn.ended_at)
        self.tokens += sum(entry.tokens for entry in turn.entries)

    def add_messages(
        self, entries: Sequence[NewMessage], turn_id: uuid.UUID, at: datetime
    ) -> None:
        for entry in entries:
            self._inserts.add(
                MessageRow,
                thread_id=self.id,
                position=self.length,
                turn_id=turn_id,
                role=entry.message.role,
                **columns_of(entry, "text", "extra", "tokens", "agent"),
                **columns_of(entry, "finish_reason", "importance"),
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
                updated_at=self.updated_at,
            )
