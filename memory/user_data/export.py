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
from telemetry.presentation import turn_serializers as turn_telling
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
    position: int | None = None
    """The last message written of the thread `after`, which is still open."""
    shows_calls: bool = True
    """Whether turns include all their calls, or only a summary."""

    def at_section_start(self, section: int) -> "ExportPosition":
        """Return the position at the start of a section."""
        return replace(self, section=section, after=None, position=None)


START = ExportPosition()

Writer = Callable[[UserId, ExportPosition], tuple[bytes, ExportPosition | None]]
"""Returns the next bytes of a list, and the position after them."""


def iter_chunks(user_id: UserId) -> Iterator[bytes]:
    """Yield the document, for callers that can wait for the database."""
    place: ExportPosition | None = START
    while place is not None:
        written, place = next_chunk(user_id, place)
        yield written


def next_chunk(
    user_id: UserId, place: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    """Return the next bytes of a user's document, and the position after them.

    Start with `START`, or a start that shows less; None marks the end. Concurrent
    changes may or may not be included.
    """
    if place.section < 0:
        return orjson.dumps(document_head(user_id))[:-1], place.at_section_start(0)
    sections = _sections()
    name, write = sections[place.section]
    opening = b"" if place.after is not None else b',"%s":[' % name.encode()
    items, rest = write(user_id, place)
    if rest is not None:
        return opening + items, rest
    if place.section + 1 < len(sections):
        return opening + items + b"]", place.at_section_start(place.section + 1)
    return opening + items + b"]}", None


def document_head(user_id: UserId) -> dict[str, Any]:
    """Return the part of the document before its lists."""
    owner = Owner.objects.filter(user_id=user_id).first()
    wish = PendingErasure.objects.filter(user_id=user_id).first()
    return {
        "object": "user.export",
        "version": 1,
        "user_id": user_id,
        "exported_at": timestamps.format_time(datetime.now(UTC)),
        "settings": {
            "time_zone": owner.time_zone or None if owner else None,
            "known_since": timestamps.format_time(owner.created_at) if owner else None,
            "erasure_asked_until": timestamps.format_time(wish.expires_at)
            if wish
            else None,
        },
    }


def _join_items(is_first: bool, items: list[bytes]) -> bytes:
    joined = b",".join(items)
    return joined if is_first or not items else b"," + joined


# Threads, each with its messages.


def _write_threads(
    user_id: UserId, place: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    if place.position is not None:
        return _write_messages(place, place.position)
    threads = Thread.objects.filter(user_id=user_id).order_by("pk")
    if place.after is not None:
        threads = threads.filter(pk__gt=place.after)
    page = list(threads[:THREADS_PER_CHUNK])
    written = b""
    for thread in page:
        written += _open_thread(thread, is_first=place.after is None)
        messages, place = _write_messages(replace(place, after=thread.pk), -1)
        written += messages
        if place.position is not None or len(written) >= MAX_CHUNK_BYTES:
            return written, place
    return written, place if len(page) == THREADS_PER_CHUNK else None


def _open_thread(thread: Thread, *, is_first: bool) -> bytes:
    opened = orjson.dumps(
        {
            "thread_id": thread.name or None,
            "created_at": fact_serializers.unix_seconds(thread.created_at),
            "updated_at": fact_serializers.unix_seconds(thread.updated_at),
            "messages": [],
        }
    )
    return _join_items(is_first, [opened.removesuffix(b"]}")])


def _write_messages(
    place: ExportPosition, position: int
) -> tuple[bytes, ExportPosition]:
    """Return the next messages after a position; after the last, the thread's end.

    A thread deleted meanwhile has no more messages. A thread's first message is the
    user's and always included, so later ones need a separator.
    """
    rows = MessageRow.objects.filter(thread=place.after, position__gt=position)
    items: list[bytes] = []
    size = 0
    for number, row in enumerate(
        rows.order_by("position")[:MESSAGES_PER_READ], start=1
    ):
        told = export_serializers.serialize_message(row, shows_calls=place.shows_calls)
        if told is not None:
            items.append(orjson.dumps(told))
            size += len(items[-1])
        if size >= MAX_CHUNK_BYTES or number == MESSAGES_PER_READ:
            return _join_items(position < 0, items), replace(
                place, position=row.position
            )
    return _join_items(position < 0, items) + b"]}", replace(place, position=None)


# Turns, each with all its calls, or as a summary.


def _write_turns(
    user_id: UserId, place: ExportPosition
) -> tuple[bytes, ExportPosition | None]:
    items: list[bytes] = []
    size = 0
    page = turn_store.turns_after(user_id, place.after)[:TURNS_PER_READ]
    told: Iterable[tuple[TurnSummary, dict[str, Any]]]
    if place.shows_calls:
        told = (
            (
                turn,
                turn_telling.without_error_details(turn_telling.serialize_turn(turn)),
            )
            for turn in turn_store.load_records(page)
        )
    else:
        told = (
            (turn, turn_telling.serialize_summary(turn))
            for turn in turn_store.load_summaries(page)
        )
    for turn, said in told:
        items.append(orjson.dumps(said))
        size += len(items[-1])
        if size >= MAX_CHUNK_BYTES or len(items) == TURNS_PER_READ:
            after = (turn.started_at, turn.turn_id)
            return _join_items(place.after is None, items), replace(place, after=after)
    return _join_items(place.after is None, items), None


# The other lists: rows ordered by id.


def _page_writer(table: UserTable, export: Export) -> Writer:
    describe = export.describe
    if describe is None:
        raise ImproperlyConfigured(f"nothing says how '{export.name}' is exported")

    def write(
        user_id: UserId, place: ExportPosition
    ) -> tuple[bytes, ExportPosition | None]:
        rows = export.rows(user_id) if export.rows else table.rows([user_id])
        asked = rows.order_by("pk")
        if place.after is not None:
            asked = asked.filter(pk__gt=place.after)
        page = list(asked[:PAGE_SIZE])
        written = _join_items(
            place.after is None, [orjson.dumps(item) for item in describe(page)]
        )
        if len(page) < PAGE_SIZE:
            return written, None
        return written, replace(place, after=page[-1].pk)

    return write


WRITERS: dict[str, Writer] = {"threads": _write_threads, "turns": _write_turns}
"""Writers of the lists that are not simply rows ordered by id."""


def _sections() -> list[tuple[str, Writer]]:
    """Return the lists of the document."""
    return [
        (each.name, WRITERS.get(each.name) or _page_writer(table, each))
        for table in user_data.tables()
        if (each := table.export) is not None
    ]
