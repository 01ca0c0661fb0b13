"""Stores and reads turns with all their calls."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection

from core.ids import TurnId, UserId
from core.trace import Call
from telemetry.config import TelemetryConfig
from telemetry.models import ModelCall as ModelCallRow
from telemetry.models import ToolCall as ToolCallRow
from telemetry.models import Turn
from telemetry.models.turns import Cursor
from telemetry.storage import row_mapping
from telemetry.storage.row_mapping import Row
from telemetry.types import TurnRecord

BATCH_SIZE = 500
"""Rows per INSERT; databases limit the parameters of a statement."""


def insert(record: TurnRecord, settings: TelemetryConfig) -> None:
    """Store a turn and all its calls, unless recording is off.

    Plain SQL in the caller's transaction, one INSERT for each table. Texts longer than
    `max_payload_bytes` are truncated, with a marker.
    """
    if not settings.sqlite.enabled:
        return
    stored = row_mapping.TurnRows(record, settings.sqlite.max_payload_bytes)
    _insert_rows(Turn, row_mapping.TURN_COLUMNS, [stored.turn])
    _insert_rows(ModelCallRow, row_mapping.MODEL_CALL_COLUMNS, stored.model_calls)
    _insert_rows(ToolCallRow, row_mapping.TOOL_CALL_COLUMNS, stored.tool_calls)


def _insert_rows(
    model: type[Any], names: tuple[str, ...], values: Sequence[Row]
) -> None:
    for start in range(0, len(values), BATCH_SIZE):
        batch = values[start : start + BATCH_SIZE]
        with connection.cursor() as cursor:
            cursor.execute(
                _insert_sql(model._meta.db_table, names, len(batch)),
                [value for row in batch for value in row],
            )


@lru_cache(maxsize=64)
def _insert_sql(table: str, names: tuple[str, ...], count: int) -> str:
    """Return the INSERT for so many rows."""
    marks = ", ".join([f"({', '.join(['%s'] * len(names))})"] * count)
    columns = ", ".join(names)
    return f"INSERT INTO {table} ({columns}) VALUES {marks}"  # noqa: S608  only names


def load_record(turn_id: TurnId, user_id: UserId | None = None) -> Turn | None:
    """Return a turn with all its calls, or None.

    With `user_id`, only a turn of this user, without shadow runs.
    """
    turns = Turn.objects.filter(pk=turn_id)
    if user_id is not None:
        turns = turns.filter(user_id=user_id).started_by_users()
    return next(iter(load_records(turns)), None)


def find_cursor(turn_id: TurnId, user_id: UserId) -> Cursor | None:
    return Turn.objects.filter(user_id=user_id).cursor_of(turn_id)


def page_turns_of_user(
    user_id: UserId, conditions: dict[str, Any], after: Cursor | None, limit: int
) -> tuple[list[Turn], bool]:
    """Return turns that a user may see, newest first, and whether there are more."""
    turns = Turn.objects.filter(user_id=user_id, **conditions).started_by_users()
    return turns.newest_first().before(after).read_page(limit)


def load_records(turns: Iterable[Turn]) -> list[Turn]:
    """Return turns with all their calls, in two further queries."""
    rows = list(turns)
    calls = load_calls([row.pk for row in rows])
    for row in rows:
        row.calls = calls[row.pk]
    return rows


def load_calls(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[Call]]:
    """Return the calls of turns, nested, by turn; in two queries."""
    model_calls = _rows_by_turn(ModelCallRow, row_mapping.MODEL_CALL_COLUMNS, ids)
    tool_calls = _rows_by_turn(ToolCallRow, row_mapping.TOOL_CALL_COLUMNS, ids)
    return {
        each: row_mapping.nest_calls(model_calls[each], tool_calls[each])
        for each in ids
    }


def _rows_by_turn(
    model: type[Any], names: Sequence[str], ids: Sequence[uuid.UUID]
) -> dict[uuid.UUID, list[Row]]:
    by_turn = defaultdict(list)
    for row in model.objects.filter(turn__in=ids).values_list(*names):
        by_turn[row[0]].append(row)
    return by_turn
