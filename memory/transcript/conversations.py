"""Threads as clients create, read and delete them by name."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import orjson
from django.db import transaction

from core import ids
from core.ids import TurnId, UserId
from core.messages import Message, Role
from memory.models import StoredMessage, Thread
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage, visible_message


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread, for its user."""

    name: str
    created_at: datetime
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message of a thread, as its user may see it."""

    id: int
    """The row."""
    position: int
    turn_id: TurnId
    message: Message
    is_reply: bool
    """Whether it is the last message of a reply."""


def find(user_id: UserId, name: str) -> Conversation | None:
    """Return a user's thread, or None."""
    thread = Thread.objects.filter(user_id=user_id, name=name).first()
    if thread is None:
        return None
    metadata = orjson.loads(thread.metadata) if thread.metadata else {}
    return Conversation(thread.name, thread.created_at, metadata)


def create(
    user_id: UserId,
    name: str,
    metadata: Mapping[str, str],
    messages: Sequence[Message],
) -> None:
    """Create a thread with messages. No facts are extracted from them."""
    now = datetime.now(UTC)
    with transaction.atomic():
        Thread.objects.create(
            user_id=user_id,
            name=name,
            metadata=_to_json(metadata),
            created_at=now,
            updated_at=now,
        )
        append(user_id, name, messages)


def _to_json(metadata: Mapping[str, str]) -> str:
    return orjson.dumps(dict(metadata)).decode() if metadata else ""


def set_metadata(user_id: UserId, name: str, metadata: Mapping[str, str]) -> None:
    """Replace a thread's metadata."""
    threads = Thread.objects.filter(user_id=user_id, name=name)
    threads.update(metadata=_to_json(metadata))


def append(
    user_id: UserId, name: str, messages: Sequence[Message]
) -> list[ConversationMessage]:
    """Append messages to a thread, and return them."""
    turn_id = ids.new_turn_id()
    entries = [NewMessage(message) for message in messages]
    message_store.append_turn(user_id, name, turn_id, entries)
    thread = StoredMessage.objects.filter(thread__user_id=user_id, thread__name=name)
    newest = thread.order_by("-position")[: len(messages)]
    rows = [row for row in newest if row.turn_id == turn_id]
    return [found for row in reversed(rows) if (found := _read(row)) is not None]


def read_page(
    user_id: UserId, name: str, *, start: int | None, is_descending: bool, limit: int
) -> list[ConversationMessage]:
    """Return messages of a thread's current branch from a position on, inclusive.

    At least `limit`, if there are so many that the user may see.
    """
    rows = StoredMessage.objects.filter(
        thread__user_id=user_id, thread__name=name, is_active=True
    )
    if start is not None and is_descending:
        rows = rows.filter(position__lte=start)
    elif start is not None:
        rows = rows.filter(position__gte=start)
    ordered = rows.order_by("-position" if is_descending else "position")
    messages: list[ConversationMessage] = []
    for first in itertools.count(step=limit):
        batch = list(ordered[first : first + limit])
        messages += [found for row in batch if (found := _read(row)) is not None]
        if len(messages) >= limit or len(batch) < limit:
            break
    return messages


def find_message(
    user_id: UserId, name: str, turn_id: TurnId, position: int | None
) -> ConversationMessage | None:
    """Return a message of a thread; without a position, its turn's reply."""
    rows = StoredMessage.objects.filter(thread__user_id=user_id, thread__name=name)
    if position is None:
        reply = StoredMessage.objects.find_reply(user_id, turn_id)
        if reply is None:
            return None
        position = reply.position
    row = rows.filter(position=position, turn_id=turn_id).first()
    return None if row is None else _read(row)


def _read(row: StoredMessage) -> ConversationMessage | None:
    message = visible_message(cast(Role, row.role), row.text, row.extra)
    if message is None:
        return None
    turn_id = TurnId(row.turn_id)
    is_reply = bool(row.finish_reason)
    return ConversationMessage(row.pk, row.position, turn_id, message, is_reply)
