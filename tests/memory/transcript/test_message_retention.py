"""Deletion of messages and facts by age."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from config import live
from config.sections import Config
from core.ids import UserId, new_turn_id
from core.messages import Message
from database import retention
from memory.config import KeepDays, MemoryConfig
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import (
    Fact,
    FactChange,
    Passage,
    Session,
    StoredMessage,
    Summary,
    Thread,
)
from memory.models import messages as message_models
from memory.transcript import message_deletion, message_store
from memory.transcript.message_rows import NewMessage

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
"""Earlier than the rows of all other tests."""
NOW = LONG_AGO + timedelta(days=100)


@pytest.fixture(autouse=True)
def all_rows(monkeypatch):
    """Look at the rows of all tests."""
    monkeypatch.setattr(message_models, "MAX_EXPIRED", 10_000_000)


@pytest.fixture
def keep() -> Iterator[Callable[..., None]]:
    """Keep messages and facts for so many days."""

    def keep(**days: int) -> None:
        memory = MemoryConfig(keep_days=KeepDays(**days))
        live.set_current(Config(Path("coulisse.yaml"), {"memory": memory}))

    before = live._current
    yield keep
    live.set_current(before)


def store(owner: UserId, *days: int, thread: str = "") -> None:
    """Store a turn for each of these ages."""
    for age in days:
        at = NOW - timedelta(days=age)
        answer = Message("assistant", "ok")
        entries = [
            NewMessage(Message("user", f"{age} days"), 5, created_at=at),
            NewMessage(answer, 5, finish_reason="stop", created_at=at),
        ]
        message_store.append_turn(owner, thread, new_turn_id(), entries)
    row = Thread.objects.get(user_id=owner, name=thread)
    indexed = [
        (each.pk, each.position, each.text, None, "")
        for each in row.messages.filter(passage=None, role="user")
    ]
    Passage.objects.index_messages(owner, row.pk, indexed)


def texts(owner: UserId, thread: str = "") -> list[str]:
    """Return the messages of the user that a prompt would have."""
    history = message_store.read_thread(owner, thread)
    recent = [] if history is None else history.recent(max_tokens=10_000).messages
    return [message.text for message in recent if message.role == "user"]


def searchable(owner: UserId) -> set[str]:
    passages = Passage.objects.filter(user_id=owner, message__isnull=False)
    return set(passages.values_list("message__text", flat=True))


def delete_old() -> tuple[int, int]:
    """Delete what has expired; return how many messages and facts."""
    models = (StoredMessage, Fact)
    first, second = (retention.delete_expired(model, NOW) for model in models)
    return first, second


def test_messages_are_kept_unless_days_are_set(owner, keep):
    keep()
    store(owner, 90)
    assert delete_old() == (0, 0)
    assert texts(owner) == ["90 days"]


def test_old_messages_leave_prompts_and_search(owner, keep):
    keep(messages=30)
    store(owner, 90, 31, 29, 1)
    assert texts(owner) == ["90 days", "31 days", "29 days", "1 days"]
    assert delete_old()[0] >= 4
    assert texts(owner) == ["29 days", "1 days"]
    assert searchable(owner) == {"29 days", "1 days"}
    assert delete_old() == (0, 0)


def test_prompts_do_not_look_for_deleted_messages(owner, keep):
    keep(messages=30)
    store(owner, 90, 29)
    delete_old()
    thread = Thread.objects.get(user_id=owner)
    assert (thread.summarized_until, thread.length) == (2, 4)
    store(owner, 1)
    assert texts(owner) == ["29 days", "1 days"]


def test_thread_without_messages_is_deleted(owner, keep):
    keep(messages=30)
    store(owner, 90, thread="trip")
    store(owner, 1)
    delete_old()
    assert list(Thread.objects.filter(user_id=owner).values_list("name")) == [("",)]


def store_episode(owner: UserId, thread: str) -> Fact:
    """Store a session of a thread, with its episode."""
    row = Thread.objects.get(user_id=owner, name=thread)
    episode = Fact.objects.create(
        user_id=owner,
        content="A trip to Oslo.",
        category="episode",
        source="extraction",
        said_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    Session.objects.create(
        user_id=owner,
        thread=row,
        first_position=0,
        end_position=row.length,
        started_at=NOW,
        ended_at=NOW,
        reason="idle",
        closed_at=NOW,
        episode=episode,
    )
    return episode


def test_episodes_of_old_messages_are_kept_as_facts(owner, keep):
    keep(messages=30)
    store(owner, 90, thread="trip")
    store_episode(owner, "trip")
    delete_old()
    assert not Session.objects.filter(user_id=owner).exists()
    assert Fact.objects.get(user_id=owner).content == "A trip to Oslo."


def test_episodes_of_a_thread_that_its_user_deletes_are_deleted(owner):
    store(owner, 90, thread="trip")
    store_episode(owner, "trip")
    message_deletion.delete_thread(owner, "trip")
    assert not Fact.objects.filter(user_id=owner).exists()


def test_summaries_go_with_the_last_of_their_messages(owner, keep):
    keep(messages=30)
    store(owner, 90, 60, 31, 29)
    thread = Thread.objects.get(user_id=owner)
    for first, end in ((0, 4), (4, 8)):
        Summary.objects.create(
            user_id=owner,
            thread=thread,
            first_position=first,
            end_position=end,
            text="talk",
            tokens=1,
            model="m",
            created_at=NOW,
        )
    delete_old()
    kept = Summary.objects.filter(thread=thread).values_list(
        "first_position", flat=True
    )
    assert list(kept) == [4]


def test_old_facts_are_deleted_with_their_history(owner, keep):
    keep(facts=30)
    drafts = [
        FactDraft("Likes tea"),
        FactDraft("Lives in Oslo", is_pinned=True),
        FactDraft("Plays the cello"),
    ]
    saved = fact_store.save_drafts(owner, drafts, [None] * 3, by="user")
    old, pinned, changed = (each.fact_id for each in saved)
    long_ago = NOW - timedelta(days=31)
    own = Fact.objects.filter(user_id=owner)
    own.update(created_at=long_ago, updated_at=long_ago)
    own.filter(pk=changed).update(updated_at=NOW)
    assert delete_old() == (0, 1)
    assert set(own.values_list("pk", flat=True)) == {pinned, changed}
    assert not FactChange.objects.filter(fact_id=old).exists()
    assert not Passage.objects.filter(user_id=owner, fact_id=old).exists()
