"""Export of a user's data as one JSON document, written in chunks.

A chunk consists of a few reads that depend only on the end of the last one. So the
sender holds no database connection in between, and can request a chunk again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, create_model

from api_base.field_types import NullIfEmpty
from core.ids import UserId
from database import user_data
from database.user_data import Export, UserTable
from memory.models import (
    Owner,
    PendingErasure,
    Thread,
)
from memory.models import StoredMessage as MessageRow
from memory.user_data.tables import ExportedMessage, ExportedThread
from telemetry.models import Turn
from telemetry.schemas import StudioTurn, TurnSummary
from telemetry.storage import turn_store

PAGE_SIZE = 200
"""Rows per chunk."""
MESSAGES_PER_READ = 25
"""Messages per read: each may contain images."""
THREADS_PER_CHUNK = 50
"""Threads per chunk."""
TURNS_PER_READ = 25
"""Turns per read: each may have many tool calls."""
MAX_CHUNK_BYTES = 1024 * 1024
"""The size at which a chunk ends."""


@dataclass(frozen=True, slots=True)
class ExportPosition:
    """A position in a document at which it continues."""

    section: int = -1
    """The index in `_sections`; -1 is the document's head."""
    after: Any = None
    """The last row written in this section; None at its start."""
    message_position: int | None = None
    """The last message written of the thread `after`, which is still open."""
    shows_calls: bool = True
    """Whether turns include all their calls, or only a summary."""

    def at_section_start(self, section: int) -> "ExportPosition":
        return replace(self, section=section, after=None, message_position=None)


START = ExportPosition()

Writer = Callable[[UserId, ExportPosition], tuple[bytes, ExportPosition | None]]
"""Returns the next bytes of a list, and the position after them."""


def iter_chunks(user_id: UserId) -> Iterator[bytes]:
    """Yield the document, for callers that can wait for the database."""
    position: ExportPosition | None = START
    while position is not None:
        chunk, position = next_chunk(user_id, position)
        yield chunk


def next_chunk(
    user_id: UserId, position: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    """Return the next bytes of a user's document, and the position after them.

    Start with `START`, or a start that shows less; None marks the end. Concurrent
    changes may or may not be included.
    """
    if position.section < 0:
        head = document_head(user_id).model_dump_json().encode()
        return head[:-1], position.at_section_start(0)
    sections = _sections()
    name, writer = sections[position.section]
    opening = b"" if position.after is not None else b',"%s":[' % name.encode()
    items, rest = writer(user_id, position)
    if rest is not None:
        return opening + items, rest
    if position.section + 1 < len(sections):
        return opening + items + b"]", position.at_section_start(position.section + 1)
    return opening + items + b"]}", None


class ExportedSettings(BaseModel):
    """The stored settings of the user."""

    time_zone: NullIfEmpty = None
    recall: bool = True
    learning: bool = True
    first_seen_at: datetime | None = None
    erasure_expires_at: datetime | None = None


class ExportHead(BaseModel):
    """The part of the document before its lists."""

    object: Literal["user.export"] = "user.export"
    version: Literal[1]
    user_id: UUID
    exported_at: datetime
    settings: ExportedSettings


def document_schema() -> type[ExportHead]:
    """Return the schema of the whole document."""
    lists: dict[str, Any] = {
        export.name: (list[export.schema], ...)  # type: ignore[name-defined]
        for table in user_data.tables()
        if (export := table.export) is not None
    }
    return create_model(
        "ExportedUser", __base__=ExportHead, __doc__="All data of a user.", **lists
    )


def document_head(user_id: UserId) -> ExportHead:
    """Return the part of the document before its lists."""
    settings = ExportedSettings()
    if owner := Owner.objects.filter(user_id=user_id).first():
        settings.time_zone = owner.time_zone or None
        settings.recall = owner.is_recall_on
        settings.learning = owner.is_learning_on
        settings.first_seen_at = owner.created_at
    if request := PendingErasure.objects.filter(user_id=user_id).first():
        settings.erasure_expires_at = request.expires_at
    return ExportHead(
        version=1, user_id=user_id, exported_at=datetime.now(UTC), settings=settings
    )


def _serialize(schema: type[BaseModel], row: Any) -> bytes:
    return schema.model_validate(row).model_dump_json().encode()


def _join_items(is_first: bool, items: list[bytes]) -> bytes:
    joined = b",".join(items)
    return joined if is_first or not items else b"," + joined


# Threads, each with its messages.


def _write_threads(
    user_id: UserId, position: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    if position.message_position is not None:
        return _write_messages(position, position.message_position)
    threads = Thread.objects.filter(user_id=user_id).order_by("pk")
    if position.after is not None:
        threads = threads.filter(pk__gt=position.after)
    page = list(threads[:THREADS_PER_CHUNK])
    chunk = b""
    for thread in page:
        chunk += _open_thread(thread, is_first=position.after is None)
        messages, position = _write_messages(replace(position, after=thread.pk), -1)
        chunk += messages
        if position.message_position is not None or len(chunk) >= MAX_CHUNK_BYTES:
            return chunk, position
    return chunk, position if len(page) == THREADS_PER_CHUNK else None


def _open_thread(thread: Thread, *, is_first: bool) -> bytes:
    serialized = _serialize(ExportedThread, thread)
    return _join_items(is_first, [serialized.removesuffix(b"]}")])


def _write_messages(
    position: ExportPosition, after: int
) -> tuple[bytes, ExportPosition]:
    """Return the messages after the position `after`; after the last, the thread's end.

    A thread deleted meanwhile has no more messages. A thread's first message is the
    user's and always included, so later ones need a separator.
    """
    rows = MessageRow.objects.filter(thread=position.after, position__gt=after)
    items: list[bytes] = []
    size = 0
    for number, row in enumerate(
        rows.order_by("position")[:MESSAGES_PER_READ], start=1
    ):
        message = ExportedMessage.from_row(row, shows_calls=position.shows_calls)
        if message is not None:
            items.append(message.model_dump_json().encode())
            size += len(items[-1])
        if size >= MAX_CHUNK_BYTES or number == MESSAGES_PER_READ:
            return _join_items(after < 0, items), replace(
                position, message_position=row.position
            )
    return _join_items(after < 0, items) + b"]}", replace(
        position, message_position=None
    )


# Turns, each with all its calls, or as a summary.


def _write_turns(
    user_id: UserId, position: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    items: list[bytes] = []
    size = 0
    turns = Turn.objects.filter(user_id=user_id).after(position.after)
    page = turns[:TURNS_PER_READ]
    schema: type[TurnSummary] = StudioTurn if position.shows_calls else TurnSummary
    for turn in turn_store.load_records(page) if position.shows_calls else page:
        items.append(orjson.dumps(schema.serialize(turn, for_users=True)))
        size += len(items[-1])
        if size >= MAX_CHUNK_BYTES or len(items) == TURNS_PER_READ:
            after = (turn.started_at, turn.turn_id)
            return _join_items(position.after is None, items), replace(
                position, after=after
            )
    return _join_items(position.after is None, items), None


# The other lists: rows ordered by id.


def _page_writer(table: UserTable, export: Export) -> Writer:
    def writer(
        user_id: UserId, position: ExportPosition
    ) -> tuple[bytes, ExportPosition | None]:
        rows = export.rows(user_id) if export.rows else table.rows([user_id])
        rows = rows.order_by("pk")
        if position.after is not None:
            rows = rows.filter(pk__gt=position.after)
        page = list(rows[:PAGE_SIZE])
        chunk = _join_items(
            position.after is None, [_serialize(export.schema, row) for row in page]
        )
        if len(page) < PAGE_SIZE:
            return chunk, None
        return chunk, replace(position, after=page[-1].pk)

    return writer


WRITERS: dict[str, Writer] = {"threads": _write_threads, "turns": _write_turns}
"""Writers of the lists that are not simply rows ordered by id."""


def _sections() -> list[tuple[str, Writer]]:
    """Return the lists of the document."""
    return [
        (each.name, WRITERS.get(each.name) or _page_writer(table, each))
        for table in user_data.tables()
        if (each := table.export) is not None
    ]
