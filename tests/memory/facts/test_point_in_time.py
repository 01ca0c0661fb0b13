"""Facts as of an earlier time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import UserId
from memory.facts import fact_store, forgetting
from memory.facts.types import FactDraft, SaveResult
from memory.models import Fact

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def day(monkeypatch):
    """Return a function that sets the clock to a day of the story."""

    def set_day(number: float) -> datetime:
        at = START + number * DAY
        monkeypatch.setattr("django.utils.timezone.now", lambda: at)
        return at

    set_day(0)
    return set_day


def save(user: UserId, content: str, **draft) -> SaveResult:
    [saved] = fact_store.save_drafts(
        user, [FactDraft(content, **draft)], [None], by="extraction"
    )
    return saved


def contents_on(user: UserId, number: float, **wanted) -> list[str]:
    page, _ = fact_store.page_facts(user, as_of=START + number * DAY, **wanted)
    return [fact.content for fact in page]


def test_as_of_before_the_first_fact_is_empty(owner, day):
    day(2)
    save(owner, "Likes tea")
    assert contents_on(owner, 1) == []
    assert contents_on(owner, 2) == contents_on(owner, 3) == ["Likes tea"]


def test_as_of_shows_superseded_fact_until_its_change(owner, day):
    save(owner, "Lives in Lisbon")
    day(5)
    save(owner, "Lives in Berlin")
    day(9)
    assert contents_on(owner, 4.9) == ["Lives in Lisbon"]
    assert contents_on(owner, 5) == ["Lives in Berlin"]
    [earlier], _ = fact_store.page_facts(owner, as_of=START + 4 * DAY)
    assert (earlier.status, earlier.superseded_by_id, earlier.valid_to) == (
        "active",
        None,
        None,
    )


def test_as_of_shows_earlier_text_of_edited_fact(owner, day):
    fact_id = save(owner, "Likes tea", importance=3).fact_id
    for number, text in ((2, "Likes green tea"), (4, "Likes black tea")):
        day(number)
        fact_store.edit_fact(
            owner, fact_id, {"content": text, "importance": 9}, by="user"
        )
    assert contents_on(owner, 1) == ["Likes tea"]
    assert contents_on(owner, 2) == contents_on(owner, 3.9) == ["Likes green tea"]
    assert contents_on(owner, 9) == ["Likes black tea"]
    [earlier], _ = fact_store.page_facts(owner, as_of=START + DAY)
    assert (earlier.importance, earlier.source) == (3, "extraction")


def test_as_of_before_deletion_shows_deleted_fact(owner, day):
    fact_id = save(owner, "Likes tea").fact_id
    day(2)
    forgetting.forget(owner, fact_id, by="user")
    day(4)
    fact_store.edit_fact(owner, fact_id, {"status": "active"}, by="user")
    for number, is_active in ((1, True), (2, False), (3, False), (4, True)):
        assert bool(contents_on(owner, number)) == is_active
    assert contents_on(owner, 3, status="deleted") == ["Likes tea"]


def test_as_of_respects_valid_from_and_valid_to(owner, day):
    save(owner, "Is in Rome", valid_from=START + DAY, valid_to=START + 3 * DAY)
    for number, is_so in ((0, False), (1, True), (2, True), (3, False)):
        assert bool(contents_on(owner, number)) == is_so
    assert contents_on(owner, 0, status=None) == ["Is in Rome"]


@pytest.mark.parametrize("is_noted", [False, True])
def test_as_of_respects_expiry(owner, day, is_noted):
    save(owner, "Is in Rome", expires_at=START + 2 * DAY)
    save(owner, "Has a visa", expires_at=START + 2 * DAY, is_pinned=True)
    now = day(5)
    if is_noted:
        Fact.objects.expire_due(now)
    assert sorted(contents_on(owner, 1)) == ["Has a visa", "Is in Rome"]
    assert contents_on(owner, 2) == contents_on(owner, 9) == ["Has a visa"]
    assert contents_on(owner, 3, status="expired") == ["Is in Rome"]


def test_as_of_filters_by_past_category_and_status(owner, day):
    fact_id = save(owner, "Likes tea", category="general").fact_id
    save(owner, "Has a cat", category="fact")
    day(2)
    fact_store.edit_fact(owner, fact_id, {"category": "preference"}, by="user")
    assert contents_on(owner, 1, category="general") == ["Likes tea"]
    assert contents_on(owner, 1, category="preference") == []
    assert contents_on(owner, 2, category="preference") == ["Likes tea"]
    assert contents_on(owner, 2, category="general") == []


def test_as_of_pages_continue_without_gap_or_repeat(owner, day):
    """Changed and unchanged facts are each listed once, in order."""
    texts = [f"Boat {number} is called {number:x}" for number in range(12)]
    for number, text in enumerate(texts):
        day(number)
        save(owner, text)
    as_of = day(20)
    for number, fact in enumerate(fact_store.page_facts(owner)[0]):
        day(21)
        if number % 3 == 0:
            fact_store.edit_fact(
                owner, fact.id, {"content": f"Boat {number}b"}, by="user"
            )
        elif number % 3 == 1:
            forgetting.forget(owner, fact.id, by="user")
            texts.remove(fact.content)
    contents, after, has_more = [], None, True
    while has_more:
        page, has_more = fact_store.page_facts(owner, as_of=as_of, after=after, limit=5)
        contents += [fact.content for fact in page]
        after = (page[-1].created_at, page[-1].id)
    assert contents == texts[::-1]


@pytest.mark.parametrize("stored", [3, 40])
def test_as_of_takes_three_queries(owner, day, stored):
    for number in range(stored):
        save(owner, f"Boat {number} is called {number:x}")
    day(1)
    for fact in fact_store.page_facts(owner, limit=stored // 2)[0]:
        forgetting.forget(owner, fact.id, by="user")
    with CaptureQueriesContext(connection) as queries:
        fact_store.page_facts(owner, as_of=START)
    assert len(queries) == 3
