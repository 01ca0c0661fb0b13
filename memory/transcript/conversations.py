"""Threads as clients create, read and delete them by name."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import orjson
from django.db import transaction

from core import ids
from core.ids import TurnId, UserId
from core.messages import Message, Role
from core.runtime import shared_clock
from memory.models import StoredMessage, Thread
from memory.models.threads import MAX_TITLE_LENGTH as MAX_TITLE_LENGTH
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage, visible_message
from memory.transcript.turn_lookup import MAX_TURN_MESSAGES


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread, for its user."""

    name: str
    title: str
    created_at: datetime
    updated_at: datetime
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
    agent: str
    created_at: datetime


def find(user_id: UserId, name: str) -> Conversation | None:
    """Return a user's thread, or None."""
    thread = Thread.objects.filter(user_id=user_id, name=name).first()
    return None if thread is None else _to_conversation(thread)


def _to_conversation(thread: Thread) -> Conversation:
    return Conversation(
        thread.name,
        thread.title,
        thread.created_at,
        thread.updated_at,
        orjson.loads(thread.metadata) if thread.metadata else {},
    )


def list_page(
    user_id: UserId, *, after: str | None, limit: int
) -> list[Conversation] | None:
    """Return threads, most recently active first; `after` is the name of one.

    None if the user has no thread of that name.
    """
    last = None
    if after is not None:
        last = Thread.objects.filter(user_id=user_id, name=after).first()
        if last is None:
            return None
    return list(
        map(_to_conversation, Thread.objects.page_of_user(user_id, last, limit))
    )


def create(
    user_id: UserId,
    name: str,
    metadata: Mapping[str, str],
    messages: Sequence[Message],
) -> None:
    """Create a thread with messages. No facts are extracted from them."""
    now = shared_clock.now()
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
    _change(user_id, name, metadata=_to_json(metadata))


def set_title(user_id: UserId, name: str, title: str) -> None:
    """Replace a thread's title."""
    _change(user_id, name, title=title)


def _change(user_id: UserId, name: str, **values: str) -> None:
    Thread.objects.filter(user_id=user_id, name=name).update(**values)


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


def read_turns(
    user_id: UserId, turn_ids: Sequence[TurnId]
) -> list[ConversationMessage]:
    """Return the messages of turns, in the order of threads and positions."""
    replies = list(StoredMessage.objects.replies(user_id, turn_ids))
    if not replies:
        return []
    rows = StoredMessage.objects.of_turns(replies, MAX_TURN_MESSAGES)
    return [found for row in rows if (found := _read(row)) is not None]


def _read(row: StoredMessage) -> ConversationMessage | None:
    message = visible_message(cast(Role, row.role), row.text, row.extra)
    if message is None:
        return None
    return ConversationMessage(
        row.pk,
        row.position,
        TurnId(row.turn_id),
        message,
        bool(row.finish_reason),
        row.agent,
        row.created_at,
    )
