"""Turns that happened elsewhere, such as in a call by voice, stored in a thread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from core import ids
from core.ids import TurnId, UserId
from core.messages import Message
from memory.config import MemoryConfig
from memory.extraction.extraction_tasks import ExtractionRequest
from memory.models import StoredMessage, Thread
from memory.transcript import digests, message_store, turn_lookup
from memory.transcript.message_rows import NewMessage
from memory.transcript.turn_lookup import VisibleTurn
from tasks.errors import KeyReused


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message and its time; None: that of the message before it in the turn, or
    now."""

    message: Message
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ImportedTurns:
    """Messages of whole turns that an agent answered elsewhere."""

    thread: str
    agent: str
    messages: Sequence[ImportedMessage]
    """Each turn is messages of the user, then replies."""
    key: str | None
    """A second import with the same key stores nothing."""


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A whole conversation of another system."""

    thread: str
    title: str
    agent: str
    turns: Mapping[str, Sequence[ImportedMessage]]
    """As those of `ImportedTurns`, by their ids in the other system."""
    updated_at: datetime


def store_conversation(
    user_id: UserId,
    conversation: ImportedConversation,
    settings: MemoryConfig,
    extraction: ExtractionRequest | None,
) -> int | None:
    """Store the turns that its thread lacks, and return their number.

    Returns None, and stores nothing, if the conversation was continued differently here
    and there. The messages have digests, so that a client that sends the conversation
    continues the thread.
    """
    name = conversation.thread
    turn_ids = [ids.derive_turn_id(user_id, name, key) for key in conversation.turns]
    entries = [
        list(_entries(turn, conversation.agent, settings))
        for turn in conversation.turns.values()
    ]
    _set_digests(user_id, [entry for turn in entries for entry in turn])
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        stored = StoredMessage.objects.turn_ids(user_id, name)
        known = len(stored)
        if stored[: len(turn_ids)] == turn_ids:
            return 0
        if stored != turn_ids[:known]:
            return None
        for turn_id, turn in zip(turn_ids[known:], entries[known:], strict=True):
            message_store.append_turn(
                user_id,
                name,
                turn_id,
                turn,
                extraction=extraction,
                cap=settings.working_memory_cap,
            )
        thread = Thread.objects.filter(user_id=user_id, name=name)
        thread.update(updated_at=conversation.updated_at)
        if not known:
            first = entries[0][0].created_at or conversation.updated_at
            thread.update(title=conversation.title, created_at=first)
    return len(turn_ids) - known


def _set_digests(user_id: UserId, entries: Sequence[NewMessage]) -> None:
    messages = [entry.message for entry in entries]
    chain = digests.iterate_digests(user_id, messages)
    exchanges = digests.digest_exchanges(user_id, messages)
    for entry, digest, exchange in zip(entries, chain, exchanges, strict=True):
        entry.digest, entry.exchange_digest = digest, exchange or None


def store_turns(
    user_id: UserId,
    imported: ImportedTurns,
    settings: MemoryConfig,
    extraction: ExtractionRequest | None,
) -> tuple[list[TurnId], bool]:
    """Store the turns, all or none; return their ids, and whether they are new.

    With `extraction`, facts are extracted from each. Raises `KeyReused` if the key
    belongs to other messages.
    """
    turns = list(_split_turns(imported.messages))
    turn_ids = [
        ids.new_turn_id()
        if imported.key is None
        else ids.derive_turn_id(user_id, imported.thread, imported.key, number)
        for number in range(len(turns))
    ]
    with transaction.atomic():
        if imported.key is not None:
            # Until this is stored, no other request with the key may look for it.
            Thread.objects.lock_of_user(user_id)
            stored = turn_lookup.read_visible_turns(user_id, turn_ids)
            if stored:
                _check_same(turns, [stored.get(turn_id) for turn_id in turn_ids])
                return turn_ids, False
        for turn_id, turn in zip(turn_ids, turns, strict=True):
            message_store.append_turn(
                user_id,
                imported.thread,
                turn_id,
                list(_entries(turn, imported.agent, settings)),
                extraction=extraction,
                cap=settings.working_memory_cap,
            )
    return turn_ids, True


def _split_turns(
    messages: Sequence[ImportedMessage],
) -> Iterator[Sequence[ImportedMessage]]:
    """Yield the turns: each begins with the first message of the user after a reply."""
    start = 0
    for number in range(1, len(messages)):
        roles = (messages[number - 1].message.role, messages[number].message.role)
        if roles == ("assistant", "user"):
            yield messages[start:number]
            start = number
    yield messages[start:]


def _check_same(
    turns: Sequence[Sequence[ImportedMessage]], stored: Sequence[VisibleTurn | None]
) -> None:
    for given, found in zip(turns, stored, strict=True):
        if found is None:
            raise KeyReused
        messages = [*(message for _, message in found.input), *found.reply]
        texts = [(message.role, message.text) for message in messages]
        if texts != [(each.message.role, each.message.text) for each in given]:
            raise KeyReused


def _entries(
    turn: Sequence[ImportedMessage], agent: str, settings: MemoryConfig
) -> Iterator[NewMessage]:
    created_at = None
    for each in turn:
        is_reply = each.message.role == "assistant"
        created_at = each.created_at or created_at
        yield NewMessage(
            each.message,
            agent=agent if is_reply else "",
            finish_reason="stop" if each is turn[-1] else "",
            importance=getattr(settings.importance, each.message.role),
            created_at=created_at,
        )
