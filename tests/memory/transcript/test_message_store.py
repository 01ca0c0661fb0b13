"""The message store: isolated, ordered and complete, with cheap reads."""

import contextlib
import threading
import uuid

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from core.ids import UserId, new_turn_id
from core.messages import Message, Reasoning, ToolCall
from memory.models import StoredMessage as MessageRow
from memory.models import messages, plain_sql
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from tests.memory.transcript.reading import recent

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def append_turn(user: UserId, *texts: str, thread: str = "", tokens: int = 10) -> None:
    """Store one turn: the texts of the user, then the reply."""
    roles = ("user", "assistant")
    entries = [
        NewMessage(Message(roles[i % 2], text), tokens) for i, text in enumerate(texts)
    ]
    message_store.append_turn(user, thread, new_turn_id(), entries)


def texts(user: UserId, thread: str = "", max_tokens: int = 1000) -> list[str]:
    return [m.text for m in recent(user, thread, max_tokens=max_tokens).messages]


def test_transcript_reads_messages_in_order(owner):
    append_turn(owner, "one", "two")
    append_turn(owner, "three", "four")
    assert texts(owner) == ["one", "two", "three", "four"]


def test_transcript_separates_users(owner):
    stranger = UserId(uuid.uuid4())
    append_turn(owner, "mine", "yours")
    assert texts(stranger) == []


def test_transcript_separates_threads_of_a_user(owner):
    append_turn(owner, "default", "reply")
    append_turn(owner, "work", "reply", thread="work")
    assert texts(owner) == ["default", "reply"]
    assert texts(owner, "work") == ["work", "reply"]
    assert texts(owner, "other") == []


def test_transcript_keeps_the_newest_messages_that_fit(owner):
    for turn in range(5):
        append_turn(owner, f"question {turn}", f"answer {turn}", tokens=100)
    assert texts(owner, max_tokens=400) == [
        "question 3",
        "answer 3",
        "question 4",
        "answer 4",
    ]


def test_transcript_never_starts_with_a_reply(owner):
    for turn in range(3):
        append_turn(owner, f"question {turn}", f"answer {turn}", tokens=100)
    assert texts(owner, max_tokens=300) == ["question 2", "answer 2"]


@pytest.mark.parametrize("budget", [0, -50, 5])
def test_transcript_is_empty_when_nothing_fits(owner, budget):
    append_turn(owner, "question", "answer")
    assert texts(owner, max_tokens=budget) == []


def test_transcript_keeps_an_open_exchange_over_budget(owner):
    call = ToolCall("call_1", "look", "{}")
    message_store.append_turn(
        owner,
        "",
        new_turn_id(),
        [
            NewMessage(Message("user", "look it up"), 500),
            NewMessage(Message("assistant", None, tool_calls=(call,)), 500),
        ],
    )
    messages = recent(owner, "", max_tokens=10, mid_exchange=True).messages
    assert [m.role for m in messages] == ["user", "assistant"]
    assert recent(owner, "", max_tokens=10).messages == []


def test_transcript_returns_every_message_field(owner):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    stored_texts = [
        Message("user", [{"type": "text", "text": "what is this?"}, picture]),
        Message(
            "assistant",
            None,
            tool_calls=(ToolCall("c1", "zoom", '{"x": 1}'),),
            reasoning=(Reasoning("hm", "sig"), Reasoning("", redacted="xx")),
        ),
        Message("tool", "closer", tool_call_id="c1"),
        Message("assistant", "A cat.", name="bob"),
    ]
    message_store.append_turn(
        owner, "", new_turn_id(), [NewMessage(m, 5) for m in stored_texts]
    )
    assert recent(owner, "", max_tokens=100).messages == stored_texts


@pytest.mark.parametrize("text", ["nul \0 inside", "😀 ünï ￾ 中文", "", "'; --"])
def test_transcript_stores_any_text(owner, text):
    append_turn(owner, text, "ok")
    assert texts(owner)[0] == text.replace("\0", "\ufffd")


def test_empty_turn_stores_no_row(owner):
    message_store.append_turn(owner, "", new_turn_id(), [])
    assert texts(owner) == []


def test_old_images_are_left_out(owner):
    url = "data:image/png;base64," + "A" * (message_store.MAX_BYTES // 3)
    picture = Message("user", [{"type": "image_url", "image_url": {"url": url}}])
    for number in range(5):
        reply = Message("assistant", f"picture {number}")
        entries = [NewMessage(picture, 800), NewMessage(reply, 10)]
        message_store.append_turn(owner, "", new_turn_id(), entries)
    messages = [m.text for m in recent(owner, "", max_tokens=100_000).messages]
    assert messages == ["", "picture 3", "", "picture 4"]


@pytest.mark.parametrize("stored", [20, 2_000])
def test_transcript_takes_one_query_for_any_length(owner, stored):
    entries = [
        NewMessage(Message(("user", "assistant")[i % 2], f"message {i}"), 10)
        for i in range(stored)
    ]
    message_store.append_turn(owner, "", new_turn_id(), entries)
    with CaptureQueriesContext(connection) as queries:
        assert len(texts(owner, max_tokens=200)) == 20
    assert len(queries) == 1


@contextlib.contextmanager
def statistics_for_now():
    """Yield a cursor with current statistics, which are removed afterwards."""
    with connection.cursor() as cursor:
        with transaction.atomic():
            cursor.execute("ANALYZE")
            yield cursor
            transaction.set_rollback(True)
        if connection.vendor == "sqlite":
            cursor.execute("ANALYZE sqlite_schema")  # Reload: no statistics.


def test_transcript_reads_one_page_of_rows(owner):
    """One long thread among many short ones, which misleads the planner."""
    for _ in range(200):
        append_turn(UserId(uuid.uuid4()), "a", "b")
    entries = [NewMessage(Message("user", str(i)), 10) for i in range(20_000)]
    message_store.append_turn(owner, "", new_turn_id(), entries)
    is_sqlite = connection.vendor == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN ANALYZE "
    with statistics_for_now() as cursor:
        cursor.execute(
            explain + messages.NEWEST_SQL,
            [plain_sql.to_sql_id(owner), "", message_store.PAGE_SIZE],
        )
        plan = "\n".join(str(row) for row in cursor.fetchall())
    if is_sqlite:
        assert "(thread_id=? AND position>?)" in plan, plan
    else:
        assert "memory_message_thread_position" in plan, plan
        assert f"rows={message_store.PAGE_SIZE}.00 loops=1" in plan, plan


def test_long_threads_are_read_page_by_page(owner):
    count = message_store.PAGE_SIZE * 2 + 10
    entries = [
        NewMessage(Message(("user", "assistant")[i % 2], str(i)), 1)
        for i in range(count)
    ]
    message_store.append_turn(owner, "", new_turn_id(), entries)
    assert texts(owner, max_tokens=10_000) == [str(i) for i in range(count)]


def test_parallel_turns_are_stored_whole_in_sequence(owner):
    barrier = threading.Barrier(4)

    def speak(speaker: int) -> None:
        barrier.wait()
        for turn in range(10):
            append_turn(owner, f"{speaker}/{turn} q", f"{speaker}/{turn} a")
        connection.close()

    threads = [threading.Thread(target=speak, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    stored_texts = texts(owner, max_tokens=100_000)
    assert len(stored_texts) == 80
    pairs = list(zip(stored_texts[::2], stored_texts[1::2], strict=True))
    assert all(q[:-1] == a[:-1] and q.endswith("q") for q, a in pairs)
    for speaker in range(4):
        own_texts = [q for q, _ in pairs if q.startswith(f"{speaker}/")]
        assert own_texts == [f"{speaker}/{turn} q" for turn in range(10)]


def test_failed_turn_stores_no_messages(owner, monkeypatch):
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(messages.StoredMessageManager, "append", broken)
    with pytest.raises(RuntimeError):
        append_turn(owner, "one", "two")
    monkeypatch.undo()
    append_turn(owner, "three", "four")
    assert texts(owner) == ["three", "four"]
    positions = MessageRow.objects.filter(thread__user_id=owner).values_list("position")
    assert sorted(positions) == [(0,), (1,)]
