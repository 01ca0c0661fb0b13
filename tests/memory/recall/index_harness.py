"""Helpers of the search tests: stored passages and short queries."""

import uuid

import numpy as np
import pytest
from django.db import connection
from django.utils import timezone

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.models import Fact, Passage, Thread
from memory.models import StoredMessage as MessageRow
from memory.recall import search
from memory.recall.index import small_corpus
from memory.recall.types import Embedded, Query
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage


@pytest.fixture(
    params=["few", "many"] if connection.vendor == "sqlite" else ["few"], autouse=True
)
def index_size(request, monkeypatch) -> None:
    """Run each test with the small and with the large corpus."""
    if request.param == "many":
        monkeypatch.setattr(small_corpus, "MAX_PASSAGES", -1)


def vector(*numbers: float, embedder: str = "test") -> Embedded:
    """A vector of four dimensions in a direction."""
    vector = np.zeros(4, np.float32)
    vector[: len(numbers)] = numbers
    return Embedded(embedder, vector / np.linalg.norm(vector))


def index_fact(user: UserId, content: str, embedded=None, **fields) -> uuid.UUID:
    now = timezone.now()
    fact = Fact.objects.create(
        user_id=user,
        content=content,
        source="user",
        said_at=now,
        created_at=now,
        updated_at=now,
        **fields,
    )
    Passage.objects.index_facts(user, [(fact.id, content, embedded, "")])
    return fact.id


def index_messages(user: UserId, *texts: str, thread: str = "", vectors=()) -> int:
    """Store messages, user and assistant in turns; return the thread's id."""
    roles = ("user", "assistant")
    first = MessageRow.objects.filter(thread__user_id=user, thread__name=thread).count()
    entries = [
        NewMessage(Message(roles[i % 2], text), 5) for i, text in enumerate(texts)
    ]
    message_store.append_turn(user, thread, new_turn_id(), entries)
    stored = list(
        MessageRow.objects.filter(
            thread__user_id=user, thread__name=thread, position__gte=first
        ).order_by("position")
    )
    given = [*vectors, *[None] * (len(stored) - len(vectors))]
    thread_id = Thread.objects.get(user_id=user, name=thread).id
    Passage.objects.index_messages(
        user,
        thread_id,
        [(m.id, m.position, m.text, v, "") for m, v in zip(stored, given, strict=True)],
    )
    return thread_id


def find_facts(user: UserId, text: str, embedded=None, limit=5, **options) -> list[str]:
    query = Query(
        text,
        embedded,
        **{
            k: options.pop(k)
            for k in ("similarity_threshold", "fusion")
            if k in options
        },
    )
    return [
        f.fact.content for f in search.search_facts(user, query, limit=limit, **options)
    ]


def find_messages(
    user: UserId, text: str, embedded=None, limit=5, **options
) -> list[str]:
    found = search.search_messages(user, Query(text, embedded), limit=limit, **options)
    return [message.text for message in found]
