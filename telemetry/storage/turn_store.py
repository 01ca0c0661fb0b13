"""Stores, reads and lists the records of turns."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from core.ids import TurnId, UserId
from telemetry.config import TelemetryConfig
from telemetry.models import ModelCall as ModelCallRow
from telemetry.models import ToolCall as ToolCallRow
from telemetry.models import Turn
from telemetry.storage import row_mapping
from telemetry.storage.row_mapping import Row
from telemetry.types import Origin, Outcome, TurnListItem, TurnRecord, TurnSummary

BATCH_SIZE = 500
"""Rows per INSERT; databases limit the parameters of a statement."""

USER_ORIGINS: tuple[Origin, ...] = ("chat", "task")
"""Turns that users started themselves and may see."""


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


def is_recorded(turn_id: TurnId) -> bool:
    """Return whether a turn has a record."""
    return Turn.objects.filter(pk=turn_id).exists()


def has_turns() -> bool:
    """Return whether any recorded turn exists."""
    return Turn.objects.exists()


def load_record(turn_id: TurnId, user_id: UserId | None = None) -> TurnRecord | None:
    """Return a turn with all its calls, or None.

    With `user_id`, only a turn of this user, without shadow runs.
    """
    turns = Turn.objects.filter(pk=turn_id)
    if user_id is not None:
        turns = turns.filter(user_id=user_id, origin__in=USER_ORIGINS)
    return next(iter(load_records(turns)), None)


def load_records(turns: QuerySet[Turn]) -> list[TurnRecord]:
    """Return turns with all their calls, in three queries."""
    rows = list(turns.values_list(*row_mapping.SUMMARY_COLUMNS, row_mapping.RECALLED))
    ids = [row[0] for row in rows]
    model_calls = _rows_by_turn(ModelCallRow, row_mapping.MODEL_CALL_COLUMNS, ids)
    tool_calls = _rows_by_turn(ToolCallRow, row_mapping.TOOL_CALL_COLUMNS, ids)
    return [_to_record(row, model_calls[row[0]], tool_calls[row[0]]) for row in rows]


def _to_record(row: Row, model_calls: list[Row], tool_calls: list[Row]) -> TurnRecord:
    fields: Row = (
        *row_mapping.summary_fields(row[:-1]),
        row[-1].split(),
        row_mapping.nest_calls(model_calls, tool_calls),
    )
    return TurnRecord(*fields)


def load_summaries(turns: QuerySet[Turn]) -> list[TurnSummary]:
    """Return turns without their calls, in one query."""
    rows = turns.values_list(*row_mapping.SUMMARY_COLUMNS)
    return [TurnSummary(*row_mapping.summary_fields(row)) for row in rows]


def cursor_of(turn_id: TurnId, user_id: UserId) -> tuple[datetime, uuid.UUID] | None:
    """Return the page cursor of a user's turn, or None."""
    turns = Turn.objects.filter(pk=turn_id, user_id=user_id)
    return turns.values_list("started_at", "id").first()


def turns_after(
    user_id: UserId, after: tuple[datetime, uuid.UUID] | None
) -> QuerySet[Turn]:
    """Return a user's turns after a cursor."""
    turns = Turn.objects.filter(user_id=user_id)
    if after is not None:
        at, last_id = after
        later = Q(started_at__gt=at) | Q(id__gt=last_id)
        turns = turns.filter(Q(started_at__gte=at) & later)
    return turns.order_by("started_at", "id")


def _rows_by_turn(
    model: type[Any], names: Sequence[str], ids: Sequence[uuid.UUID]
) -> dict[uuid.UUID, list[Row]]:
    by_turn = defaultdict(list)
    for row in model.objects.filter(turn__in=ids).values_list(*names):
        by_turn[row[0]].append(row)
    return by_turn


def page_turns(
    *,
    user_id: UserId | None = None,
    agent: str | None = None,
    experiment: str | None = None,
    origins: Collection[Origin] | None = None,
    outcome: Outcome | None = None,
    request_id: str | None = None,
    since: datetime | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = 20,
) -> tuple[list[TurnListItem], bool]:
    """Return turns, newest first, and whether there are more.

    `after` is the `started_at` and the id of the last turn of the previous page.
    """
    filters = {
        "user_id": user_id,
        "agent": agent,
        "outcome": outcome,
        "experiment": experiment,
        "origin__in": origins,
        "request_id": request_id,
        "started_at__gte": since,
    }
    turns = Turn.objects.filter(
        _after_cursor(after),
        **{name: value for name, value in filters.items() if value is not None},
    )
    columns = (*row_mapping.SUMMARY_COLUMNS, *row_mapping.COUNT_COLUMNS)
    newest = turns.order_by("-started_at", "-id").values_list(*columns)
    rows = list(newest[: limit + 1])
    items = [
        TurnListItem(*row_mapping.summary_fields(row[:-2]), *row[-2:])
        for row in rows[:limit]
    ]
    return items, len(rows) > limit


def _after_cursor(after: tuple[datetime, uuid.UUID] | None) -> Q:
    if after is None:
        return Q()
    at, last_id = after
    # The first condition selects where the index scan begins.
    return Q(started_at__lte=at) & (Q(started_at__lt=at) | Q(id__lt=last_id))
