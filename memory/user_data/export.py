"""Export of a user's data as one JSON document, written in chunks.

A chunk consists of a few reads that depend only on the end of the last one. So the
sender holds no database connection in between, and can request a chunk again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
from django.core.exceptions import ImproperlyConfigured

from core.ids import UserId
from core.text import timestamps
from database import user_data
from database.user_data import Export, UserTable
from memory.facts import fact_serializers
from memory.models import (
    Owner,
    PendingErasure,
    Thread,
)
from memory.models import StoredMessage as MessageRow
from memory.user_data import export_serializers
from telemetry.presentation import turn_serializers
from telemetry.storage import turn_store
from telemetry.types import TurnSummary

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
        """Return the position at the start of a section."""
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
        return orjson.dumps(document_head(user_id))[:-1], position.at_section_start(0)
    sections = _sections()
    name, writer = sections[position.section]
    opening = b"" if position.after is not None else b',"%s":[' % name.encode()
    items, rest = writer(user_id, position)
    if rest is not None:
        return opening + items, rest
    if position.section + 1 < len(sections):
        return opening + items + b"]", position.at_section_start(position.section + 1)
    return opening + items + b"]}", None


def document_head(user_id: UserId) -> dict[str, Any]:
    """Return the part of the document before its lists."""
    owner = Owner.objects.filter(user_id=user_id).first()
    erasure_request = PendingErasure.objects.filter(user_id=user_id).first()
    return {
        "object": "user.export",
        "version": 1,
        "user_id": user_id,
        "exported_at": timestamps.format_time(datetime.now(UTC)),
        "settings": {
            "time_zone": owner.time_zone or None if owner else None,
            "first_seen_at": timestamps.format_time(owner.created_at)
            if owner
            else None,
            "erasure_expires_at": timestamps.format_time(erasure_request.expires_at)
            if erasure_request
            else None,
        },
    }


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
    serialized = orjson.dumps(
        {
            "thread_id": thread.name or None,
            "created_at": fact_serializers.unix_seconds(thread.created_at),
            "updated_at": fact_serializers.unix_seconds(thread.updated_at),
            "messages": [],
        }
    )
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
        content = export_serializers.serialize_message(
            row, shows_calls=position.shows_calls
        )
        if content is not None:
            items.append(orjson.dumps(content))
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
    page = turn_store.turns_after(user_id, position.after)[:TURNS_PER_READ]
    serialized: Iterable[tuple[TurnSummary, dict[str, Any]]]
    if position.shows_calls:
        serialized = (
            (
                turn,
                turn_serializers.without_error_details(
                    turn_serializers.serialize_turn(turn)
                ),
            )
            for turn in turn_store.load_records(page)
        )
    else:
        serialized = (
            (turn, turn_serializers.serialize_summary(turn))
            for turn in turn_store.load_summaries(page)
        )
    for turn, content in serialized:
        items.append(orjson.dumps(content))
        size += len(items[-1])
        if size >= MAX_CHUNK_BYTES or len(items) == TURNS_PER_READ:
            after = (turn.started_at, turn.turn_id)
            return _join_items(position.after is None, items), replace(
                position, after=after
            )
    return _join_items(position.after is None, items), None


# The other lists: rows ordered by id.


def _page_writer(table: UserTable, export: Export) -> Writer:
    describe = export.describe
    if describe is None:
        raise ImproperlyConfigured(f"nothing says how '{export.name}' is exported")

    def writer(
        user_id: UserId, position: ExportPosition
    ) -> tuple[bytes, ExportPosition | None]:
        rows = export.rows(user_id) if export.rows else table.rows([user_id])
        rows = rows.order_by("pk")
        if position.after is not None:
            rows = rows.filter(pk__gt=position.after)
        page = list(rows[:PAGE_SIZE])
        chunk = _join_items(
            position.after is None, [orjson.dumps(item) for item in describe(page)]
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
