"""Facts: saved where they belong, corrected, forgotten, and never another's."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from core.ids import UserId
from memory import facts
from memory.known import Draft, Saved

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


def save(owner: UserId, content: str, *, by: str = "extraction", **draft) -> Saved:
    [saved] = facts.save(owner, [Draft(content, **draft)], [None], by=by)
    return saved


def active(owner: UserId) -> list[str]:
    return [fact.content for fact in facts.page(owner)[0]]


def test_a_new_fact_is_created(owner):
    saved = save(owner, " Likes\n tea\0 ", category="preference", importance=7)
    assert saved.outcome == "created"
    fact = facts.get(owner, saved.fact_id)
    assert fact.content == "Likes tea\ufffd"
    assert (fact.category, fact.importance, fact.status) == ("preference", 7, "active")
