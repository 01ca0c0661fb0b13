"""Branches of threads: what is current is read and learnt from, the rest is kept."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import new_turn_id
from core.messages import Message
from memory.extraction.extraction_tasks import ExtractionRequest, ExtractionTask
from memory.models import (
    ConsolidationRun,
    Owner,
    Passage,
    StoredMessage,
    Summary,
    Thread,
)
from memory.transcript import message_store, stored_replies
from memory.transcript.branches import SentConversation
from memory.transcript.message_rows import NewMessage
from memory.transcript.summaries import summarizable_ranges
from tasks.models import EXTRACTION, Task
from tests.memory.transcript.reading import recent

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def message(number: int, text: str) -> Message:
    return Message("assistant" if number % 2 else "user", text)


def send(user, *texts, reply="reply", thread="mine", follows=None, extraction=None):
    """Store the turn of a client that sends these texts, from a user's on, by turns."""
    turn_id = new_turn_id()
    messages = [message(number, text) for number, text in enumerate(texts)]
    answer = Message("assistant", reply)
    sent = SentConversation(
        messages,
        is_whole=follows is None,
        new_count=1,
        follows=follows,
        reply=answer,
        reply_rows=1,
    )
    entries = [NewMessage(each) for each in messages]
    entries.append(NewMessage(answer, finish_reason="stop", importance=0.9))
    message_store.append_turn(
        user, thread, turn_id, entries, sent=sent, extraction=extraction
    )
    return turn_id


def talk(user, count, thread="mine"):
    """Store a conversation of some turns; return its texts and the turns' ids."""
    texts: list[str] = []
    turns = []
    for number in range(count):
        texts.append(f"q{number}")
        turns.append(send(user, *texts, reply=f"a{number}", thread=thread))
        texts.append(f"a{number}")
    return texts, turns


def current(user, thread="mine"):
    return [each.text for each in recent(user, thread, max_tokens=10**6).messages]


def test_current_branch_is_read_across_pages_of_others(owner):
    texts, _ = talk(owner, 3)
    for number in range(70):
        send(owner, *texts[:2], f"try {number}", reply=f"result {number}")
    assert current(owner) == [*texts[:2], "try 69", "result 69"]
    message_store.message_cache.MESSAGE_CACHE.drop_user(owner)
    assert current(owner) == [*texts[:2], "try 69", "result 69"]


def test_other_processes_notice_a_branch(owner):
    texts, _ = talk(owner, 3)
    assert current(owner) == texts
    cached = message_store.message_cache.MESSAGE_CACHE.get((owner, "mine"))
    send(owner, *texts[:2], "edited", reply="b")
    message_store.message_cache.MESSAGE_CACHE.put((owner, "mine"), cached)
    assert current(owner) == [*texts[:2], "edited", "b"]


def test_branches_of_branches_can_be_returned_to(owner):
    texts, _ = talk(owner, 4)
    send(owner, *texts[:4], "x2", reply="y2")
    send(owner, *texts[:4], "x2", "y2", "x3", reply="y3")
    send(owner, *texts[:4], "x2", "y2", "z3", reply="w3")
    send(owner, *texts[:2], "top", reply="first")
    for known in (
        [*texts[:4], "x2", "y2", "x3", "y3"],
        [*texts[:4], "x2", "y2", "z3", "w3"],
        texts,
    ):
        send(owner, *known, "go on", reply="gone")
        assert current(owner) == [*known, "go on", "gone"]
    assert StoredMessage.objects.filter(thread__user_id=owner).count() == 8 + 8 + 6


def test_reply_of_another_branch_can_be_followed(owner):
    texts, turns = talk(owner, 3)
    send(owner, *texts[:2], "edited", reply="b")
    history = stored_replies.read_until(owner, turns[1])
    window = history.recent(max_tokens=10**6)
    assert [each.text for each in window.messages] == texts[:4]
    send(owner, "on", reply="more", follows=turns[1])
    assert current(owner) == [*texts[:4], "on", "more"]


def test_summaries_of_another_branch_are_deleted(owner):
    texts, _ = talk(owner, 6)
    thread = Thread.objects.get(user_id=owner)
    now = datetime.now(UTC)
    for first in (0, 4):
        Summary(
            user_id=owner, thread=thread, first_position=first, end_position=first + 4,
            text="short", tokens=2, model="m",
            run=ConsolidationRun.objects.create(started_at=now), created_at=now,
        ).store(now)  # fmt: skip
    send(owner, *texts[:6], "edited", reply="b")
    thread.refresh_from_db()
    assert thread.summarized_until == 4
    assert Summary.objects.filter(thread=thread).count() == 1
    assert current(owner) == [*texts[4:6], "edited", "b"]
    summarized = thread.messages.filter(summarized_at__isnull=False)
    summarized = summarized.order_by("position")
    assert list(summarized.values_list("text", flat=True)) == texts[:4]


def test_important_messages_of_another_branch_are_not_recalled(owner):
    texts, _ = talk(owner, 3)
    send(owner, *texts[:2], "edited", reply="b")
    thread = Thread.objects.get(user_id=owner)
    found = StoredMessage.objects.important(
        thread.pk, before=100, min_importance=0.7, limit=10
    )
    assert [each.text for each in found] == ["b", "a0"]


def test_other_branches_are_not_summarized(owner):
    texts, _ = talk(owner, 4)
    send(owner, *texts[:2], "edited", reply="b")
    thread = Thread.objects.get(user_id=owner)
    found = summarizable_ranges.next_range(thread, 0, thread.length)
    assert [each.text for each in found.shown_messages] == [*texts[:2], "edited", "b"]


def test_spaces_around_a_text_make_no_branch(owner):
    texts, _ = talk(owner, 2)
    send(owner, texts[0], f" {texts[1]}\n", *texts[2:], "q2", reply="a2")
    assert current(owner) == [*texts, "q2", "a2"]
    assert not StoredMessage.objects.filter(thread__user_id=owner, is_active=False)


def test_only_new_messages_are_learnt_from(owner):
    texts, _ = talk(owner, 2)
    request = ExtractionRequest("assistant")
    turn_id = send(owner, *texts, "x", "y", "new", reply="z", extraction=request)
    task = ExtractionTask.read(Task.objects.get(kind=EXTRACTION, turn_id=turn_id))
    rows = StoredMessage.objects.filter(
        thread_id=task.thread_id,
        position__range=(task.first_position, task.end_position - 1),
    )
    assert list(rows.order_by("position").values_list("text", flat=True)) == [
        "new",
        "z",
    ]


def test_moved_turn_is_still_learnt_from(owner):
    send(owner, "other", thread="", reply="r")
    turn_id = new_turn_id()
    question, reply = Message("user", "mine"), Message("assistant", "ok")
    sent = SentConversation([question], False, 1, reply=reply, reply_rows=1)
    message_store.append_turn(
        owner,
        "",
        turn_id,
        [NewMessage(question), NewMessage(reply, finish_reason="stop")],
        sent=sent,
        extraction=ExtractionRequest("assistant"),
    )
    rows = StoredMessage.objects.filter(turn_id=turn_id).order_by("position")
    texts = [(row.pk, row.position, row.text, None, "") for row in rows]
    Passage.objects.index_messages(owner, rows[0].thread_id, texts)
    Owner.objects.ensure_bumped(owner)
    before = Owner.objects.get(user_id=owner).version
    send(owner, "mine", "ok", "and?", reply="more", thread="")
    task = ExtractionTask.read(Task.objects.get(kind=EXTRACTION, turn_id=turn_id))
    own = Thread.objects.get(user_id=owner, name__startswith="conversation-")
    assert (task.thread_id, task.first_position, task.end_position) == (own.pk, 0, 2)
    assert current(owner, own.name) == ["mine", "ok", "and?", "more"]
    moved = Passage.objects.filter(user_id=owner).order_by("position")
    places = [(own.pk, 0), (own.pk, 1)]
    assert list(moved.values_list("thread_id", "position")) == places
    # So that the other processes notice.
    assert Owner.objects.get(user_id=owner).version > before
    assert current(owner, "") == ["other", "r"]


@pytest.mark.parametrize("pairs", [10, 2_000])
def test_number_of_queries_does_not_depend_on_the_length(owner, pairs):
    texts = [f"{number}" for number in range(2 * pairs)]
    send(owner, *texts[:-1], reply=texts[-1])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        send(owner, *texts, "new")
    # The lock, the search, the positions, the rows; and the transaction.
    assert len(queries) <= 6
