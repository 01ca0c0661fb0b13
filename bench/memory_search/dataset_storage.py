"""Stores a data set in the database, like the product does."""

import uuid
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from django.db import transaction

from bench.memory_search.dataset import (
    Dataset,
    DatasetConversation,
    DatasetFact,
    DatasetQuestion,
)
from bench.memory_search.embeddings import DatasetVectors
from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.models import Fact, Passage
from memory.models import StoredMessage as MessageRow
from memory.recall.index import tokenizer
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage


@dataclass(frozen=True)
class StoredUser:
    """A user with stored data, and questions about it."""

    corpus: Literal["facts", "messages"]
    user_id: UserId
    names: Mapping[Hashable, str]
    """The data set's id of each stored fact or message."""
    questions: tuple[DatasetQuestion, ...]


def store_dataset(data: Dataset, vectors: DatasetVectors) -> Iterator[StoredUser]:
    """Store the data set for new users, and yield each of them.

    All facts are stored before the first user is yielded, so that the facts of other
    users are present in every search.
    """
    names = dict.fromkeys(fact.user for fact in data.facts)
    yield from [_store_facts(name, data, vectors) for name in names]
    for conversation in data.conversations:
        if conversation.questions:
            yield _store_conversation(conversation, vectors)


def _store_facts(name: str, data: Dataset, vectors: DatasetVectors) -> StoredUser:
    user_id = UserId(uuid.uuid4())
    facts = [fact for fact in data.facts if fact.user == name]
    superseded = {fact.supersedes for fact in facts}
    ids = {fact.id: uuid.uuid4() for fact in facts}
    with transaction.atomic():
        Fact.objects.bulk_create(
            [_row(fact, user_id, ids[fact.id], fact.id in superseded) for fact in facts]
        )
        active = [fact for fact in facts if fact.id not in superseded]
        Passage.objects.index_facts(
            user_id,
            [
                (
                    ids[fact.id],
                    fact.content,
                    vectors.of(tokenizer.strip_subject(fact.content)),
                    "",
                )
                for fact in active
            ],
        )
    questions = tuple(query for query in data.queries if query.user == name)
    return StoredUser("facts", user_id, {ids[f.id]: f.id for f in active}, questions)


def _row(
    fact: DatasetFact, user_id: UserId, fact_id: uuid.UUID, is_superseded: bool
) -> Fact:
    now = datetime.now(UTC)
    return Fact(
        id=fact_id,
        user_id=user_id,
        content=fact.content,
        category=fact.category,
        status="superseded" if is_superseded else "active",
        source="extraction",
        said_at=now,
        created_at=now,
        updated_at=now,
    )


def _store_conversation(
    conversation: DatasetConversation, vectors: DatasetVectors
) -> StoredUser:
    """Store a conversation as a thread; the first speaker is the user."""
    user_id = UserId(uuid.uuid4())
    message_store.append_turn(user_id, "", new_turn_id(), _entries(conversation))
    rows = MessageRow.objects.filter(thread__user_id=user_id).order_by("position")
    stored = list(rows.values_list("id", "thread_id", "position"))
    Passage.objects.index_messages(
        user_id,
        stored[0][1],
        [
            (message_id, position, line.text, vectors.of(line.text), "")
            for (message_id, _, position), line in zip(
                stored, conversation.lines, strict=True
            )
        ],
    )
    names = {
        row[0]: line.id for row, line in zip(stored, conversation.lines, strict=True)
    }
    return StoredUser("messages", user_id, names, conversation.questions)


def _entries(conversation: DatasetConversation) -> list[NewMessage]:
    user = conversation.lines[0].speaker
    return [
        NewMessage(
            Message("user" if line.speaker == user else "assistant", line.text), 1
        )
        for line in conversation.lines
    ]
