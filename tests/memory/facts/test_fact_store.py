"""The fact store: reads, edits, deletion, expiry and isolation of users."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.db import connection
from django.forms.models import model_to_dict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.ids import UserId
from memory.errors import FactInvalid, FactUnknown, KeyTaken
from memory.facts import fact_store, forgetting
from memory.facts.types import FactDraft
from memory.models import Fact, FactChange, Passage
from memory.recall import search
from memory.recall.types import Embedded, Query
from tests.memory.facts.saving import save

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def learn(user: UserId, content: str, **draft) -> Fact:
    return fact_store.get_fact(user, save(user, content, **draft).fact_id)


def contents(user: UserId, **wanted) -> list[str]:
    return [fact.content for fact in fact_store.page_facts(user, **wanted)[0]]


def found(user: UserId, words: str) -> list[str]:
    return [f.fact.content for f in search.search_facts(user, Query(words), limit=10)]


def actions(user: UserId, fact: Fact) -> list[tuple[str, str]]:
    return [(step.action, step.by) for step in fact_store.list_changes(user, fact.id)]


# Valid facts.


def test_fact_text_is_normalised_when_stored(owner):
    fact = learn(owner, " Likes\n\n tea\0 \ud800 ", category="preference", key=" tea ")
    assert fact.content == "Likes tea\ufffd \ufffd"
    assert (fact.category, fact.key, fact.status) == ("preference", "tea", "active")
    assert fact.created_at == fact.updated_at == fact.said_at


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        ({"content": " \n "}, "content"),
        ({"content": "\x01"}, "content"),
        ({"valid_from": MAY, "valid_to": MAY}, "valid_to"),
        ({"valid_from": MAY, "expires_at": MAY - DAY}, "expires_at"),
    ],
)
def test_invalid_facts_are_refused_by_field(owner, draft, field):
    drafts = [FactDraft("Likes tea"), FactDraft(**{"content": "Likes coffee", **draft})]
    with pytest.raises(FactInvalid) as refused:
        fact_store.save_drafts(owner, drafts, [None, None], by="extraction")
    assert refused.value.param == field
    assert contents(owner) == []


def test_history_shows_how_a_fact_was_created(owner):
    fact = learn(owner, "Likes tea", by="agent:bob", source="agent", valid_from=MAY)
    [step] = fact_store.list_changes(owner, fact.id)
    assert (step.action, step.by, step.before) == ("created", "agent:bob", None)
    assert step.after["content"] == "Likes tea"
    assert step.after["valid_from"] == "2026-05-01T12:00:00+00:00"
    assert json.dumps(step.after)


def test_fact_is_stored_with_vector_or_embedding_error(owner):
    vector = np.array([0.6, 0.8], dtype=np.float32)
    fact_store.save_drafts(
        owner,
        [FactDraft("Likes tea"), FactDraft("Has a cat")],
        [Embedded("test:2", vector), None],
        by="extraction",
        errors=["", "the service is down"],
    )
    rows = Passage.objects.filter(user_id=owner).order_by("dimensions")
    embedded = list(rows.values_list("fact__content", "embedder", "embedding_error"))
    assert embedded == [
        ("Has a cat", "", "the service is down"),
        ("Likes tea", "test:2", ""),
    ]


# Edits.


def test_edit_changes_only_the_given_fields(owner):
    fact = learn(owner, "Likes tea", importance=3)
    edited = fact_store.edit_fact(
        owner, fact.id, {"content": "Likes  green tea", "importance": 8}, by="user"
    )
    assert (edited.content, edited.importance) == ("Likes green tea", 8)
    assert edited.created_at == fact.created_at
    assert edited.source == "user"
    step = fact_store.list_changes(owner, fact.id)[-1]
    assert (step.action, step.by) == ("updated", "user")
    assert step.before["content"] == "Likes tea"
    assert step.after["content"] == "Likes green tea"
    assert "category" not in step.after
    assert found(owner, "green") == ["Likes green tea"]


def test_edit_without_change_adds_no_history(owner):
    fact = learn(owner, "Likes tea")
    assert not fact.edit({"content": "Likes tea"}, by="user")
    assert model_to_dict(fact_store.get_fact(owner, fact.id)) == model_to_dict(fact)
    assert actions(owner, fact) == [("created", "extraction")]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"content": ""}, "content"),
        ({"valid_to": MAY - DAY}, "valid_to"),
    ],
)
def test_invalid_edit_is_refused_by_field(owner, changes, field):
    fact = learn(owner, "Likes tea", valid_from=MAY)
    with pytest.raises(FactInvalid) as refused:
        fact_store.edit_fact(owner, fact.id, changes, by="user")
    assert refused.value.param == field
    assert fact_store.get_fact(owner, fact.id).content == "Likes tea"


def test_fact_can_be_pinned_held_and_restored(owner):
    fact = learn(owner, "Likes tea")
    assert fact.pin(by="user")
    assert not fact.pin(by="user")
    assert fact.send_to_review(by="operator", reason="odd")
    assert contents(owner) == found(owner, "tea") == []
    assert list(Fact.objects.filter(user_id=owner).with_status("pending_review")) == [
        fact
    ]
    facts = Fact.objects.filter(user_id=owner).with_status("active")
    assert not facts.exists()
    assert fact.restore(by="user")
    assert fact.unpin(by="user")
    assert list(facts.all()) == [fact]
    assert contents(owner) == found(owner, "tea") == ["Likes tea"]
    assert [name for name, _ in actions(owner, fact)] == [
        "created",
        "pinned",
        "flagged",
        "restored",
        "unpinned",
    ]


def test_deleted_fact_is_hidden_but_kept(owner):
    fact = learn(owner, "Likes tea")
    assert forgetting.forget(owner, fact.id, by="user", reason="no longer")
    assert fact_store.get_fact(owner, fact.id).status == "deleted"
    assert contents(owner) == found(owner, "tea") == []
    assert contents(owner, status="deleted") == ["Likes tea"]
    assert fact_store.list_changes(owner, fact.id)[-1].reason == "no longer"
    assert not forgetting.forget(owner, fact.id, by="user")
    assert len(fact_store.list_changes(owner, fact.id)) == 2


def test_restored_superseded_fact_is_valid_again(owner):
    old = learn(owner, "Lives in Lisbon", said_at=MAY)
    save(owner, "Lives in Berlin")
    assert fact_store.get_fact(owner, old.id).valid_to is not None
    back = fact_store.edit_fact(owner, old.id, {"status": "active"}, by="user")
    assert (back.status, back.superseded_by_id, back.valid_to) == ("active", None, None)
    assert found(owner, "Lisbon") == ["Lives in Lisbon"]


def test_key_belongs_to_one_active_fact(owner):
    old = learn(owner, "Lives in Lisbon", key="city")
    forgetting.forget(owner, old.id, by="user")
    new = learn(owner, "Has a flat in Rome", key="city")
    with pytest.raises(KeyTaken, match=new.id.hex):
        fact_store.edit_fact(owner, old.id, {"status": "active"}, by="user")
    other = learn(owner, "Likes tea")
    with pytest.raises(KeyTaken):
        fact_store.edit_fact(owner, other.id, {"key": "city"}, by="user")
    fact_store.edit_fact(owner, new.id, {"key": None}, by="user")
    assert (
        fact_store.edit_fact(owner, old.id, {"status": "active"}, by="user").key
        == "city"
    )


# Expiry.


def test_fact_is_hidden_as_soon_as_it_expires(owner):
    expiry = timezone.now() - DAY
    fact = learn(owner, "Is in Rome today", expires_at=expiry)
    pinned_fact = learn(owner, "Is in Oslo today", expires_at=expiry, is_pinned=True)
    assert fact.current_status == "expired"
    assert contents(owner) == [pinned_fact.content]
    assert contents(owner, status="expired") == [fact.content]
    assert Fact.objects.get(id=fact.id).status == "active"


def test_expiry_is_recorded_once(owner):
    due = learn(owner, "Is in Rome today", expires_at=timezone.now() - DAY)
    later = learn(owner, "Has a visa", expires_at=timezone.now() + DAY)
    Fact.objects.expire_due(timezone.now())
    assert actions(owner, due)[1:] == [("expired", "expiry")]
    assert actions(owner, later) == [("created", "extraction")]
    assert fact_store.get_fact(owner, due.id).status == "expired"
    assert not Passage.objects.filter(fact_id=due.id).exists()
    Fact.objects.expire_due(timezone.now())
    assert actions(owner, due)[1:] == [("expired", "expiry")]


def test_expiry_is_limited_per_run():
    now = timezone.now()
    Fact.objects.expire_due(now)  # Facts of other tests.
    users = [UserId(uuid.uuid4()) for _ in range(3)]
    for user in users:
        save(user, "Is in Rome today", expires_at=now - DAY)
    assert Fact.objects.expire_due(now, limit=2) == 2
    assert Fact.objects.expire_due(now, limit=2) == 1


def test_restored_expired_fact_has_no_expiry(owner):
    due = learn(owner, "Is in Rome", expires_at=timezone.now() - DAY)
    back = fact_store.edit_fact(owner, due.id, {"status": "active"}, by="user")
    assert (back.status, back.expires_at) == ("active", None)


# Reads.


def test_fact_pages_are_newest_first(owner):
    boats = [f"Has a boat called {name}" for name in ("Aida", "Bora", "Cleo", "Duna")]
    for name in boats:
        save(owner, name, category="event", source="agent")
    save(owner, "Likes tea", category="preference")
    newest, has_more = fact_store.page_facts(owner, category="event", limit=3)
    assert [fact.content for fact in newest] == boats[:0:-1]
    assert has_more
    after = (newest[-1].created_at, newest[-1].id)
    oldest, has_more = fact_store.page_facts(
        owner, category="event", after=after, limit=3
    )
    assert [fact.content for fact in oldest] == boats[:1]
    assert not has_more
    assert contents(owner, source="extraction") == ["Likes tea"]


def test_fact_pages_keep_facts_of_the_same_instant(owner):
    texts = ["Likes tea", "Has a cat", "Speaks Welsh", "Plays chess", "Hates rain"]
    fact_store.save_drafts(
        owner, [FactDraft(text) for text in texts], [None] * 5, by="extraction"
    )
    contents_read, after, has_more = [], None, True
    while has_more:
        page, has_more = fact_store.page_facts(owner, after=after, limit=2)
        contents_read += [fact.content for fact in page]
        after = (page[-1].created_at, page[-1].id)
    assert sorted(contents_read) == sorted(texts)


@pytest.mark.parametrize("stored", [3, 30])
def test_fact_queries_do_not_grow_with_the_data(owner, stored):
    for number in range(stored):
        save(owner, f"Boat {number} is called {number:x}", importance=9)
    fact = fact_store.page_facts(owner, limit=1)[0][0]
    with CaptureQueriesContext(connection) as queries:
        fact_store.page_facts(owner)
        Fact.objects.in_every_prompt(owner, limit=5)
        fact_store.get_fact(owner, fact.id)
        fact_store.list_changes(owner, fact.id)
    assert len(queries) == 5
    assert not any("COUNT" in query["sql"] for query in queries)


def test_pinned_and_important_facts_are_pinned_context(owner):
    save(owner, "Likes tea", importance=8)
    save(owner, "Is allergic to nuts", importance=10)
    save(owner, "Plays chess", importance=9)
    save(owner, "Moves in May", importance=10, valid_from=timezone.now() + DAY)
    pinned = learn(owner, "Speaks Welsh", importance=1, is_pinned=True)
    yesterday = timezone.now() - DAY
    save(owner, "Is on a trip", is_pinned=True, valid_to=yesterday)
    gone = learn(owner, "Has a cat", is_pinned=True)
    forgetting.forget(owner, gone.id, by="user")
    read = Fact.objects.in_every_prompt
    pinned_contents = [fact.content for fact in read(owner, limit=10).facts]
    assert pinned_contents == [pinned.content, "Is allergic to nuts", "Plays chess"]
    assert read(owner, limit=1).facts == [fact_store.get_fact(owner, pinned.id)]


# Isolation of users.


def test_fact_functions_never_touch_other_users_facts(owner):
    stranger = UserId(uuid.uuid4())
    fact = learn(owner, "Lives in Lisbon", key="city", is_pinned=True)
    assert contents(stranger, status=None) == []
    assert contents(stranger, status=None, as_of=timezone.now()) == []
    assert Fact.objects.in_every_prompt(stranger, limit=10) == ([], [])
    for call in (
        lambda: fact_store.get_fact(stranger, fact.id),
        lambda: fact_store.list_changes(stranger, fact.id),
        lambda: fact_store.edit_fact(stranger, fact.id, {"content": "x"}, by="user"),
        lambda: forgetting.forget(stranger, fact.id, by="user"),
    ):
        with pytest.raises(FactUnknown):
            call()
    for draft in (
        FactDraft("Lives in Lisbon", key="city"),
        FactDraft("Lives in Berlin", supersedes=fact.id),
        FactDraft("Lives in Rome", key="city", supersedes=fact.id),
    ):
        fact_store.save_drafts(stranger, [draft], [None], by="extraction")
    assert model_to_dict(fact_store.get_fact(owner, fact.id)) == model_to_dict(fact)
    assert actions(owner, fact) == [("created", "extraction")]
    steps = FactChange.objects.filter(user_id=stranger)
    assert not steps.filter(fact__user_id=owner).exists()
