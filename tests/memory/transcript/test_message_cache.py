"""The message cache: correct after any write, small, and without needless queries."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.models import Thread
from memory.transcript import message_cache, message_store
from memory.transcript.message_cache import CachedMessage, CachedThread, MessageCache
from memory.transcript.message_rows import NewMessage
from tests.memory.transcript.reading import recent

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def elsewhere(monkeypatch):
    """Return a function that writes like another process."""

    def write(user: UserId, *texts: str) -> None:
        with monkeypatch.context() as other:
            other.setattr(message_cache, "MESSAGE_CACHE", MessageCache())
            append_texts(user, *texts)

    return write


def append_texts(user: UserId, *texts: str) -> None:
    entries = [
        NewMessage(Message(("user", "assistant")[i % 2], text), 10)
        for i, text in enumerate(texts)
    ]
    message_store.append_turn(user, "", new_turn_id(), entries)


def texts(user: UserId, **options) -> list[str]:
    options = {"max_tokens": 100_000, **options}
    return [m.text for m in recent(user, "", **options).messages]


def queries(user: UserId, **options) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        texts(user, **options)
    return [query["sql"] for query in captured]


def test_cached_messages_are_not_read_again(owner):
    append_texts(owner, "one", "two")
    texts(owner)
    append_texts(owner, "three", "four")
    (only,) = queries(owner)
    assert "memory_message" not in only
    assert texts(owner) == ["one", "two", "three", "four"]


def test_cache_includes_messages_of_other_processes(owner, elsewhere):
    append_texts(owner, "one", "two")
    texts(owner)
    elsewhere(owner, "three", "four")
    assert texts(owner) == ["one", "two", "three", "four"]
    append_texts(owner, "five", "six")
    assert texts(owner)[-2:] == ["five", "six"]


def test_write_after_an_unseen_one_leaves_no_gap(owner, elsewhere):
    append_texts(owner, "one", "two")
    texts(owner)
    elsewhere(owner, "three", "four")
    append_texts(owner, "five", "six")
    assert texts(owner) == ["one", "two", "three", "four", "five", "six"]


def test_cache_catches_up_with_more_than_a_page(owner, elsewhere):
    append_texts(owner, "one", "two")
    texts(owner)
    elsewhere(owner, *(str(i) for i in range(message_store.PAGE_SIZE * 2)))
    assert texts(owner) == ["one", "two", *map(str, range(message_store.PAGE_SIZE * 2))]


def test_erased_thread_leaves_the_cache_at_once(owner):
    append_texts(owner, "secret", "reply")
    texts(owner)
    Thread.objects.filter(user_id=owner).delete()
    assert texts(owner) == []
    append_texts(owner, "new", "reply")
    assert texts(owner) == ["new", "reply"]


@pytest.mark.parametrize("cap", [0, 1, 50])
def test_cap_limits_the_cache_but_not_the_result(owner, cap):
    append_texts(owner, *map(str, range(80)))
    for _ in range(2):
        assert texts(owner, cap=cap) == [str(i) for i in range(80)]
    cached = message_cache.MESSAGE_CACHE.get((owner, ""))
    assert cached is not None
    assert len(cached.messages) == cap


def test_recent_messages_respect_the_limit(owner):
    append_texts(owner, *map(str, range(20)))
    assert texts(owner, limit=4) == ["16", "17", "18", "19"]
    assert texts(owner, limit=3) == ["18", "19"]


def test_recent_messages_stop_where_summaries_begin(owner):
    append_texts(owner, *map(str, range(80)))
    Thread.objects.filter(user_id=owner).update(summarized_until=30)
    window = recent(owner, max_tokens=100_000)
    assert [m.text for m in window.messages] == [str(i) for i in range(30, 80)]
    assert window.first_position == 30
    # From the cache, and from within a page.
    Thread.objects.filter(user_id=owner).update(summarized_until=60)
    assert texts(owner) == [str(i) for i in range(60, 80)]


def cached(text: str) -> CachedThread:
    return CachedThread(
        1, 0, 1, (CachedMessage(0, 1, len(text), Message("user", text)),)
    )


def test_cache_evicts_least_recently_used_thread():
    memory = MessageCache(max_bytes=3 * (1000 + message_cache.ROW_BYTES))
    users = [UserId(uuid.uuid4()) for _ in range(4)]
    for user in users[:3]:
        memory.put((user, ""), cached("x" * 1000))
    memory.get((users[0], ""))
    memory.put((users[3], ""), cached("x" * 1000))
    assert [memory.get((user, "")) is not None for user in users] == [
        True,
        False,
        True,
        True,
    ]


def test_too_large_thread_is_not_cached():
    memory = MessageCache(max_bytes=100)
    memory.put((UserId(uuid.uuid4()), ""), cached("x" * 1000))
    assert memory._bytes == 0


def test_cache_forgets_all_threads_of_a_user():
    memory = MessageCache()
    one, other = UserId(uuid.uuid4()), UserId(uuid.uuid4())
    for key in ((one, ""), (one, "work"), (other, "")):
        memory.put(key, cached("x"))
    memory.drop_user(one)
    assert memory.get((one, "work")) is None
    assert memory.get((other, "")) is not None
