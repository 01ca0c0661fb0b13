"""The alert about failed tasks."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from studio.monitoring import alerts
from tasks.models import Task

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("rollback")]

THEN = datetime(2100, 5, 1, tzinfo=UTC)


@pytest.fixture
def rollback(database: None) -> Iterator[None]:
    """Roll back the rows of a test."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def fail(kind: str, agent: str, origin: str, *, hours: int, state: str = "errored"):
    at = THEN + timedelta(hours=hours)
    Task.objects.create(
        kind=kind,
        user_id=uuid.uuid4(),
        agent=agent,
        origin=origin,
        state=state,
        created_at=at,
        due_at=at,
    )


def test_failed_tasks_are_grouped_by_judge_or_agent():
    for hours in (1, 2):
        fail("judge", "writer", "judge:quality", hours=hours)
    fail("judge", "assistant", "judge:quality", hours=3)
    fail("judge", "assistant", "judge:tone", hours=3, state="done")
    fail("agent", "writer", f"turn:{uuid.uuid4()}", hours=1)
    fail("agent", "writer", "api", hours=0)
    found = [(t.kind, t.name, t.count) for t in alerts.failed_tasks(THEN)]
    assert found == [("judge", "quality", 3), ("agent", "writer", 2)]
    assert alerts.failed_tasks(THEN)[0].last_at == THEN + timedelta(hours=3)
    assert [t.count for t in alerts.failed_tasks(THEN + timedelta(hours=3))] == [1]
