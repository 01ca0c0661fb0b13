"""Maps a turn to rows of its three tables, and back."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import orjson
from django.db import connection

from core.events import Usage
from core.text import redaction
from core.trace import Attempt, Call, ModelCall, TracedToolCall
from telemetry import models
from telemetry.storage import stored_text
from telemetry.types import TurnRecord

MAX_COUNT = 2**63 - 1

USAGE_COLUMNS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
SUMMARY_COLUMNS = (
    "id",
    "user_id",
    "thread",
    "agent",
    "experiment",
    "origin",
    "user_message",
    "is_streamed",
    "started_at",
    "seconds",
    "outcome",
    "finish_reason",
    "error",
    "request_id",
    "token_id",
    "cost_micro_usd",
    *USAGE_COLUMNS,
)
KNOWN_COST = "known_cost_micro_usd"
RECALLED = "recalled"
DIAGNOSTICS = "diagnostics_json"
TURN_COLUMNS = (
    *SUMMARY_COLUMNS,
    "model_calls",
    "tool_calls",
    KNOWN_COST,
    RECALLED,
    DIAGNOSTICS,
)
CALL_COLUMNS = (
    "turn_id",
    "position",
    "parent_position",
    "started_at",
    "seconds",
    "error",
)
MODEL_CALL_COLUMNS = (
    *CALL_COLUMNS,
    "agent",
    "provider",
    "model",
    "finish_reason",
    "attempts",
    "cost_micro_usd",
    *USAGE_COLUMNS,
)
TOOL_CALL_COLUMNS = (
    *CALL_COLUMNS,
    "depth",
    "name",
    "kind",
    "target",
    "call_id",
    "arguments",
    "result",
)

Row = tuple[Any, ...]

_COST_INDEX = MODEL_CALL_COLUMNS.index("cost_micro_usd")

_ID_FIELD = models.Turn._meta.get_field("id")


def _stored_id(value: uuid.UUID) -> Any:
    return _ID_FIELD.get_db_prep_value(value, connection)


class TurnRows:
    """The rows of a record, with the columns named above."""

    def __init__(self, record: TurnRecord, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._id = _stored_id(record.turn_id)
        self.model_calls: list[Row] = []
        self.tool_calls: list[Row] = []
        for position, parent, depth, call in flatten_calls(record.calls):
            if isinstance(call, ModelCall):
                self.model_calls.append(self._model_call_row(position, parent, call))
            else:
                self.tool_calls.append(
                    self._tool_call_row(position, parent, depth, call)
                )
        self.turn = self._turn_row(record)

    def _turn_row(self, record: TurnRecord) -> Row:
        return (
            self._id,
            _stored_id(record.user_id),
            stored_text.make_storable(record.thread),
            stored_text.truncate_name(record.agent),
            stored_text.truncate_name(record.experiment) or None,
            record.origin,
            self._payload(record.user_message),
            record.is_streamed,
            _stored_instant(record.started_at),
            record.seconds,
            record.outcome,
            stored_text.truncate_name(record.finish_reason, 32),
            self._payload(record.error),
            stored_text.truncate_name(record.request_id, 128),
            None if record.token_id is None else _stored_id(record.token_id),
            record.cost_micro_usd,
            *usage_counts(record.usage),
            len(self.model_calls),
            len(self.tool_calls),
            sum(row[_COST_INDEX] or 0 for row in self.model_calls),
            " ".join(record.recalled_fact_ids),
            orjson.dumps(record.diagnostics.__dict__).decode(),
        )

    def _model_call_row(
        self, position: int, parent: int | None, call: ModelCall
    ) -> Row:
        return (
            *self._call_row(position, parent, call),
            stored_text.truncate_name(call.agent),
            stored_text.truncate_name(call.provider),
            stored_text.truncate_name(call.model),
            stored_text.truncate_name(call.finish_reason, 32),
            _attempts_as_json(call.attempts),
            call.cost_micro_usd,
            *usage_counts(call.usage),
        )

    def _tool_call_row(
        self, position: int, parent: int | None, depth: int, call: TracedToolCall
    ) -> Row:
        return (
            *self._call_row(position, parent, call),
            depth,
            stored_text.truncate_name(call.name),
            call.kind,
            stored_text.truncate_name(call.target),
            stored_text.truncate_name(call.id),
            self._payload(call.arguments),
            self._payload(call.result),
        )

    def _call_row(self, position: int, parent: int | None, call: Call) -> Row:
        return (
            self._id,
            position,
            parent,
            _stored_instant(call.started_at),
            call.seconds,
            self._payload(call.error),
        )

    def _payload(self, text: str | None) -> str | None:
        if text is None:
            return None
        # Redacted before truncation, which could leave half of a secret.
        return stored_text.truncate_payload(redaction.redact_own(text), self._max_bytes)


def flatten_calls(calls: Sequence[Call]) -> Iterator[tuple[int, int | None, int, Call]]:
    """Yield each call with its position, its parent's position and its depth.

    A call comes after the one that contains it and before later siblings.
    """
    stack: list[tuple[int | None, int, Call]]
    stack = [(None, 0, call) for call in reversed(calls)]
    position = 0
    while stack:
        parent, depth, call = stack.pop()
        yield position, parent, depth, call
        if isinstance(call, TracedToolCall):
            stack += [(position, depth + 1, each) for each in reversed(call.calls)]
        position += 1


def usage_counts(usage: Usage | None) -> Row:
    """Return the stored values of a usage, in the order of `USAGE_COLUMNS`."""
    if usage is None:
        return (None,) * len(USAGE_COLUMNS)
    # Providers' own figures: an invalid one must not fail the turn.
    return tuple(min(max(getattr(usage, name), 0), MAX_COUNT) for name in USAGE_COLUMNS)


def _stored_instant(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


def to_usage(values: Row) -> Usage | None:
    return None if None in values else Usage(*values)


def nest_calls(model_calls: Sequence[Row], tool_calls: Sequence[Row]) -> list[Call]:
    """Return a turn's rows as a tree of calls, in order of beginning."""
    by_position: dict[int, tuple[int | None, Call]] = {}
    for row in model_calls:
        by_position[row[1]] = row[2], _to_model_call(row)
    for row in tool_calls:
        by_position[row[1]] = row[2], _to_tool_call(row)
    roots: list[Call] = []
    for _, (parent_position, call) in sorted(by_position.items()):
        parent = None
        if parent_position is not None:
            _, parent = by_position.get(parent_position, (None, None))
        siblings = parent.calls if isinstance(parent, TracedToolCall) else roots
        siblings.append(call)
    return roots


def _to_model_call(row: Row) -> ModelCall:
    *_, started_at, seconds, error, agent, provider, model, finish_reason = row[:10]
    attempts, cost_micro_usd = row[10:12]
    return ModelCall(
        agent,
        provider,
        model,
        started_at,
        seconds,
        to_usage(row[12:]),
        finish_reason=finish_reason,
        error=error,
        cost_micro_usd=cost_micro_usd,
        attempts=_to_attempts(attempts),
    )


def _attempts_as_json(attempts: Sequence[Attempt]) -> str | None:
    """Return attempts as JSON; None for one successful attempt at a single endpoint,
    the most frequent case.
    """
    if all(each.error is None and not each.endpoint for each in attempts):
        return None
    return redaction.redact_own(
        orjson.dumps([asdict(each) for each in attempts]).decode()
    )


def _to_attempts(stored: str | None) -> list[Attempt]:
    if stored is None:
        return []
    return [Attempt(**each) for each in orjson.loads(stored)]


def _to_tool_call(row: Row) -> TracedToolCall:
    started_at, seconds, error = row[3:6]
    name, kind, target, call_id, arguments, result = row[7:]
    return TracedToolCall(
        name, kind, arguments, call_id, target, started_at, seconds, result, error
    )
