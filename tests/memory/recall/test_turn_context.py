"""The context of a turn: each setting has an effect, stored data costs no queries."""

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.config import MemoryConfig, UserState
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import Passage, Summary, Thread
from memory.models import StoredMessage as Row
from memory.recall.context import turn_context
from memory.recall.context.turn_context import Context, ContextQuery
from memory.recall.types import Query
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


KNOWN = ["Plays cello at dawn", "Lends out a cello", "Sold one cello to Ana"]
PINNED = ["Pinned: is deaf in one ear", "Pinned: cannot eat nuts"]
SAID = [("The cello is loud", 0.9), ("The cello is old", 0.9), ("I hear a cello", 0.4)]


@pytest.fixture
def cellist() -> UserId:
    """A user with many facts, all older than the newest messages."""
    user = UserId(uuid.uuid4())
    drafts = [FactDraft(content) for content in KNOWN]
    drafts += [FactDraft(content, is_pinned=True) for content in PINNED]
    fact_store.save_drafts(user, drafts, [None] * len(drafts), by="user")
    thread = Thread.objects.get_or_create(
        user_id=user, created_at=timezone.now(), updated_at=timezone.now()
    )[0]
    entries = [NewMessage(Message("user", text), 5, importance=i) for text, i in SAID]
    entries += [NewMessage(Message("user", f"hello {n}"), 5) for n in range(4)]
    message_store.append_turn(user, "", new_turn_id(), entries)
    rows = Row.objects.filter(thread=thread).order_by("position")
    found = [(row.pk, row.position, row.text, None, "") for row in rows]
    Passage.objects.index_messages(user, thread.pk, found)
    return user


def context_of(
    user: UserId, state: dict[str, Any], settings: dict[str, Any]
) -> Context:
    """Return the context of a turn about the cello, with two messages."""
    given = {"recency_limit": 2, "relevance_limit": 0, "salience_limit": 0, **settings}
    memory = MemoryConfig(user_state=UserState(**state), **given)
    return turn_context.load_context(
        user, ContextQuery("", 9000, memory, recall_query=Query("the cello"))
    )


def test_messages_are_not_recalled_for_a_client_that_sends_them(cellist):
    memory = MemoryConfig(user_state=UserState(), relevance_limit=3)
    for is_sent, count in ((False, 1), (True, 0)):
        found = turn_context.load_context(
            cellist,
            ContextQuery(
                "elsewhere",
                9000,
                memory,
                recall_query=Query("the cello"),
                client_sends_history=is_sent,
            ),
        )
        assert found.memory_prompt.count("I hear a cello") == count
        assert KNOWN[0] in found.memory_prompt


def test_messages_of_another_branch_are_not_recalled(cellist):
    settings = {"relevance_limit": 3}
    assert SAID[2][0] in context_of(cellist, {}, settings).memory_prompt
    rows = Row.objects.filter(thread__user_id=cellist, text=SAID[2][0])
    rows.update(is_active=False)
    assert SAID[2][0] not in context_of(cellist, {}, settings).memory_prompt


@pytest.mark.parametrize(
    ("setting", "text", "before", "after"),
    [
        ({"recall_k": 2}, "cello", 3, 2),
        ({"recall_k": 0}, "cello", 3, 0),
        ({"pinned_facts": 1}, "Pinned", 2, 1),
        ({"pinned_facts": 0}, "Pinned", 2, 0),
        ({"block_tokens": 50}, "- [general]", 5, 2),
    ],
)
def test_memory_prompt_size_settings_take_effect(cellist, setting, text, before, after):
    assert context_of(cellist, {}, {}).memory_prompt.count(text) == before
    assert context_of(cellist, setting, {}).memory_prompt.count(text) == after


@pytest.mark.parametrize(
    ("settings", "quoted"),
    [
        ({}, 0),
        ({"salience_limit": 5}, 2),
        ({"salience_limit": 1}, 1),
        ({"salience_limit": 5, "salience_threshold": 0.95}, 0),
        ({"salience_limit": 5, "salience_threshold": 0.4}, 5),
        ({"relevance_limit": 5}, 4),
        ({"relevance_limit": 1}, 1),
        ({"salience_limit": 1, "relevance_limit": 3}, 3),
    ],
)
def test_recalled_message_settings_take_effect(cellist, settings, quoted):
    assert context_of(cellist, {}, settings).memory_prompt.count(', user: "') == quoted


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (None, 7)])
def test_recency_limit_sets_the_message_count(cellist, limit, count):
    assert len(context_of(cellist, {}, {"recency_limit": limit}).messages) == count


@pytest.fixture
def owner() -> UserId:
    """A user with very many summaries and one message after them."""
    now = timezone.now()
    owner = UserId(uuid.uuid4())
    thread = Thread.objects.create(
        user_id=owner,
        length=6000,
        summarized_until=6000,
        created_at=now,
        updated_at=now,
    )
    Summary.objects.bulk_create(
        Summary(
            user_id=owner,
            thread=thread,
            first_position=20 * number,
            end_position=20 * number + 20,
            text=f"stretch {number}",
            tokens=100,
            model="m",
            created_at=now,
        )
        for number in range(300)
    )
    entries = [NewMessage(Message("user", "hello"), 5)]
    message_store.append_turn(owner, "", new_turn_id(), entries)
    return owner


def test_newest_fitting_summaries_are_shown_in_order(owner):
    context = turn_context.load_context(
        owner, ContextQuery("", 1400, MemoryConfig())
    ).memory_prompt
    assert "stretch 296" not in context
    assert context.index("stretch 297") < context.index("stretch 299")


def test_summary_query_reads_no_more_than_can_fit(owner):
    with CaptureQueriesContext(connection) as captured:
        turn_context.load_context(owner, ContextQuery("", 1400, MemoryConfig()))
    (asked,) = (q["sql"] for q in captured if "memory_summary" in q["sql"])
    with connection.cursor() as cursor:
        cursor.execute(asked)
        assert len(cursor.fetchall()) < 30


def test_recent_messages_are_not_recalled_again(cellist):
    """Messages in the conversation are not quoted in the memory prompt."""
    memory = MemoryConfig(user_state=UserState(recall_k=0, pinned_facts=0))
    wanted = ContextQuery("", 9000, memory, recall_query=Query("the cello, hello"))
    gathered = turn_context.load_context(cellist, wanted)
    assert len(gathered.messages) == 7
    assert gathered.memory_prompt == ""


def test_summaries_count_towards_the_budget(cellist):
    thread = Thread.objects.get(user_id=cellist)
    Row.objects.filter(thread=thread).update(tokens=50)
    Thread.objects.filter(pk=thread.pk).update(summarized_until=1)
    assert (
        len(
            turn_context.load_context(
                cellist, ContextQuery("", 300, MemoryConfig())
            ).messages
        )
        == 6
    )
    Summary.objects.create(
        user_id=cellist,
        thread=thread,
        first_position=0,
        end_position=1,
        text="word " * 32,
        tokens=40,
        model="m",
        created_at=timezone.now(),
    )
    gathered = turn_context.load_context(cellist, ContextQuery("", 300, MemoryConfig()))
    assert "word word" in gathered.memory_prompt
    assert len(gathered.messages) == 5
