"""The context of a turn costs the same however much is stored."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory import gather, history
from memory.config import MemoryConfig
from memory.gather import Wanted
from memory.models import Summary, Thread
from memory.transcript import Entry

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def owner() -> UserId:
    """A user with very many summaries and one message after them."""
    now = timezone.now()
    owner = UserId(uuid.uuid4())
    thread = Thread.objects.create(
        user_id=owner, length=6000, summarised=6000, created_at=now, updated_at=now
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
    entries = [Entry(Message("user", "hello"), 5)]
    history.append(owner, "", new_turn_id(), entries)
    return owner


def test_the_newest_summaries_that_fit_are_told_in_order(owner):
    told = gather.gather(owner, Wanted("", 1400, MemoryConfig())).block
    assert "stretch 296" not in told
    assert told.index("stretch 297") < told.index("stretch 299")


def test_no_more_summaries_are_read_than_may_fit(owner):
    with CaptureQueriesContext(connection) as captured:
        gather.gather(owner, Wanted("", 1400, MemoryConfig()))
    (asked,) = (q["sql"] for q in captured if "memory_summary" in q["sql"])
    with connection.cursor() as cursor:
        cursor.execute(asked)
        assert len(cursor.fetchall()) < 30
