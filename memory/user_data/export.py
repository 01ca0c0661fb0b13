"""Everything there is about a user, as one JSON document written piece by piece.

A piece is a few reads that depend on nothing but where the last one ended: whoever
sends a long document holds no connection in between, and may ask for a piece again.
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
    Erasure,
    Owner,
    Thread,
)
from memory.models import Message as MessageRow
from memory.user_data import export_serializers
from telemetry.presentation import turn_serializers as turn_telling
from telemetry.storage import turn_store
from telemetry.types import Outline

PAGE = 200
"""Rows of a piece."""
MESSAGES = 25
"""Messages read at a time: each may hold pictures."""
THREADS = 50
"""Threads looked at in one piece."""
TURNS = 25
"""Turns read at a time: each may have called many tools."""
MAX_BYTES = 1024 * 1024
"""A piece that has come to this ends, whatever more it might hold."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document goes on."""

    section: int = -1
    """Of `_sections`; the document's head comes before them."""
    after: Any = None
    """The last row written of this section; None is at its beginning."""
    position: int | None = None
    """The last message written of the thread `after`, which is not closed yet."""
    shows_calls: bool = True
    """Whether turns are told with all they called, or in outline."""

    def at_section_start(self, section: int) -> "Place":
        """Return the beginning of a section."""
        return replace(self, section=section, after=None, position=None)


START = Place()

Writer = Callable[[UserId, Place], tuple[bytes, Place | None]]
"""Returns the next bytes of a list, and where it goes on."""


def pieces(user_id: UserId) -> Iterator[bytes]:
    """Yield the document, for callers who can wait for the database in between."""
    place: Place | None = START
    while place is not None:
        written, place = piece(user_id, place)
        yield written


def piece(user_id: UserId, place: Place) -> tuple[bytes, Place | None]:
    """Return the next bytes of a user's document, and where it goes on.

    Pass `START` first, or a start that shows less; None is the end. What changes in the
    meantime is in it or not.
    """
    if place.section < 0:
        return orjson.dumps(head(user_id))[:-1], place.at_section_start(0)
    sections = _sections()
    name, write = sections[place.section]
    opening = b"" if place.after is not None else b',"%s":[' % name.encode()
    items, rest = write(user_id, place)
    if rest is not None:
        return opening + items, rest
    if place.section + 1 < len(sections):
        return opening + items + b"]", place.at_section_start(place.section + 1)
    return opening + items + b"]}", None


def head(user_id: UserId) -> dict[str, Any]:
    """Return what the document says of the user before its lists."""
    owner = Owner.objects.filter(user_id=user_id).first()
    wish = Erasure.objects.filter(user_id=user_id).first()
    return {
        "object": "user.export",
        "version": 1,
        "user_id": user_id,
        "exported_at": timestamps.instant(datetime.now(UTC)),
        "settings": {
            "time_zone": owner.time_zone or None if owner else None,
            "known_since": timestamps.instant(owner.created_at) if owner else None,
            "erasure_asked_until": timestamps.instant(wish.expires_at)
            if wish
            else None,
        },
    }


def _listed(is_first: bool, items: list[bytes]) -> bytes:
    joined = b",".join(items)
    return joined if is_first or not items else b"," + joined


# Threads, each with its messages.


def _threads(user_id: UserId, place: Place) -> tuple[bytes, Place | None]:
    if place.position is not None:
        return _rest_of_thread(place, place.position)
    threads = Thread.objects.filter(user_id=user_id).order_by("pk")
    if place.after is not None:
        threads = threads.filter(pk__gt=place.after)
    page = list(threads[:THREADS])
    written = b""
    for thread in page:
        written += _opening(thread, is_first=place.after is None)
        messages, place = _rest_of_thread(replace(place, after=thread.pk), -1)
        written += messages
        if place.position is not None or len(written) >= MAX_BYTES:
            return written, place
    return written, place if len(page) == THREADS else None


def _opening(thread: Thread, *, is_first: bool) -> bytes:
    opened = orjson.dumps(
        {
            "thread_id": thread.name or None,
            "created_at": fact_serializers.seconds(thread.created_at),
            "updated_at": fact_serializers.seconds(thread.updated_at),
            "messages": [],
        }
    )
    return _listed(is_first, [opened.removesuffix(b"]}")])


def _rest_of_thread(place: Place, position: int) -> tuple[bytes, Place]:
    """Return the next messages after a position, and the end where they are the last.

    A thread that is deleted meanwhile has no more of them. The first of a thread is its
    user's and always told, so those after it follow one.
    """
    rows = MessageRow.objects.filter(thread=place.after, position__gt=position)
    items: list[bytes] = []
    size = 0
    for number, row in enumerate(rows.order_by("position")[:MESSAGES], start=1):
        told = export_serializers.message(row, shows_calls=place.shows_calls)
        if told is not None:
            items.append(orjson.dumps(told))
            size += len(items[-1])
        if size >= MAX_BYTES or number == MESSAGES:
            return _listed(position < 0, items), replace(place, position=row.position)
    return _listed(position < 0, items) + b"]}", replace(place, position=None)


# Turns, each with all it called, or in outline.


def _turns(user_id: UserId, place: Place) -> tuple[bytes, Place | None]:
    items: list[bytes] = []
    size = 0
    page = turn_store.oldest_first(user_id, place.after)[:TURNS]
    told: Iterable[tuple[Outline, dict[str, Any]]]
    if place.shows_calls:
        told = (
            (turn, turn_telling.for_user(turn_telling.turn(turn)))
            for turn in turn_store.whole(page)
        )
    else:
        told = (
            (turn, turn_telling.outline(turn)) for turn in turn_store.outlines(page)
        )
    for turn, said in told:
        items.append(orjson.dumps(said))
        size += len(items[-1])
        if size >= MAX_BYTES or len(items) == TURNS:
            after = (turn.started_at, turn.turn_id)
            return _listed(place.after is None, items), replace(place, after=after)
    return _listed(place.after is None, items), None


# The other lists: rows in the order of their ids.


def _in_pages(table: UserTable, export: Export) -> Writer:
    describe = export.describe
    if describe is None:
        raise ImproperlyConfigured(f"nothing says how '{export.name}' is exported")

    def write(user_id: UserId, place: Place) -> tuple[bytes, Place | None]:
        rows = export.rows(user_id) if export.rows else table.rows([user_id])
        asked = rows.order_by("pk")
        if place.after is not None:
            asked = asked.filter(pk__gt=place.after)
        page = list(asked[:PAGE])
        written = _listed(
            place.after is None, [orjson.dumps(item) for item in describe(page)]
        )
        if len(page) < PAGE:
            return written, None
        return written, replace(place, after=page[-1].pk)

    return write


WRITERS: dict[str, Writer] = {"threads": _threads, "turns": _turns}
"""What writes the lists that are not merely rows in the order of their ids."""


def _sections() -> list[tuple[str, Writer]]:
    """Return the lists of the document."""
    return [
        (each.name, WRITERS.get(each.name) or _in_pages(table, each))
        for table in user_data.tables()
        if (each := table.export) is not None
    ]
