"""Search: by words and by meaning, one user at a time, on both databases."""

import uuid

import numpy as np
import pytest
from django.utils import timezone

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory import history, passages, search
from memory.known import Embedded, Query
from memory.models import Fact, Thread
from memory.models import Message as MessageRow
from memory.transcript import Entry

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


@pytest.fixture
def stranger() -> UserId:
    return UserId(uuid.uuid4())


def toward(*numbers: float, embedder: str = "test") -> Embedded:
    """A vector of four dimensions in a direction."""
    vector = np.zeros(4, np.float32)
    vector[: len(numbers)] = numbers
    return Embedded(embedder, vector / np.linalg.norm(vector))


def learn(user: UserId, content: str, embedded=None, **fields) -> uuid.UUID:
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
    passages.put_facts(user, [(fact.id, content, embedded, "")])
    return fact.id


def say(user: UserId, *texts: str, thread: str = "", vectors=()) -> int:
    """Store messages, user and assistant in turns; return the thread's id."""
    roles = ("user", "assistant")
    first = MessageRow.objects.filter(thread__user_id=user, thread__name=thread).count()
    entries = [Entry(Message(roles[i % 2], text), 5) for i, text in enumerate(texts)]
    history.append(user, thread, new_turn_id(), entries)
    rows = list(
        MessageRow.objects.filter(
            thread__user_id=user, thread__name=thread, position__gte=first
        ).order_by("position")
    )
    given = [*vectors, *[None] * (len(rows) - len(vectors))]
    thread_id = Thread.objects.get(user_id=user, name=thread).id
    passages.put_messages(
        user,
        thread_id,
        [(m.id, m.position, m.text, v, "") for m, v in zip(rows, given, strict=True)],
    )
    return thread_id


def contents(user: UserId, text: str, embedded=None, limit=5, **options) -> list[str]:
    query = Query(
        text,
        embedded,
        **{k: options.pop(k) for k in ("floor", "fusion") if k in options},
    )
    return [f.fact.content for f in search.facts(user, query, limit=limit, **options)]


def said(user: UserId, text: str, embedded=None, limit=5, **options) -> list[str]:
    found = search.messages(user, Query(text, embedded), limit=limit, **options)
    return [message.text for message in found]


def test_a_fact_is_found_by_its_words(owner):
    learn(owner, "The user lives in Lisbon")
    learn(owner, "The user plays the cello")
    assert contents(owner, "Which city do I live in?") == ["The user lives in Lisbon"]


def test_a_fact_is_found_by_its_meaning(owner):
    learn(owner, "The user plays the cello", toward(1))
    learn(owner, "The user lives in Lisbon", toward(0, 1))
    assert contents(owner, "instrument", toward(1, 0.1), floor=0.5) == [
        "The user plays the cello"
    ]


def test_a_message_is_found_by_its_neighbours(owner):
    say(owner, "How was the concert?", "Loud, but lovely", "And the food?", "Fine")
    assert said(owner, "concert") == ["How was the concert?", "Loud, but lovely"]
