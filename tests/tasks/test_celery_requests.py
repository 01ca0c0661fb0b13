"""What Celery's tools show of a running task."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.worker import state

from core.ids import pseudonym
from core.runtime import shared_clock
from coulisse_site.celery import Job
from tasks.models import Task
from tasks.worker.celery_requests import JobRequest, RowRequest, RowTask


@pytest.fixture
def request_id(monkeypatch: pytest.MonkeyPatch) -> str:
    """A message that the worker executes; its events are recorded."""
    request: Any = RowRequest.__new__(RowRequest)
    events: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        RowRequest,
        "send_event",
        lambda self, name, **given: events.append((name, given)),
    )
    request.events = events
    name = str(uuid.uuid4())
    monkeypatch.setitem(state.requests, name, request)
    return name


def test_row_is_shown_without_naming_its_user(request_id: str) -> None:
    user_id = uuid.uuid4()
    task = Task(user_id=user_id, agent="assistant", prompt="a secret", attempts=2)

    RowTask.show_row(request_id, task)

    request: Any = state.requests[request_id]
    assert request.row == {
        "task": str(task.id),
        "agent": "assistant",
        "user": pseudonym(user_id),
        "attempt": 2,
    }
    ((name, given),) = request.events
    assert (name, given["kwargs"]) == ("task-started", repr(request.row))
    for secret in (str(user_id), user_id.hex, "a secret"):
        assert secret not in given["kwargs"]


def test_row_of_an_ended_execution_is_not_shown(request_id: str) -> None:
    RowTask.show_row("unknown", Task(user_id=uuid.uuid4()))

    request: Any = state.requests[request_id]
    assert (request.row, request.events) == (None, [])


@pytest.mark.parametrize(("skew", "has_expired"), [(-45, None), (45, True)])
def test_messages_expire_by_the_shared_time(
    skew: int, has_expired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders set the expiry by it; this machine's clock may show any other."""
    at = datetime.now(UTC) + timedelta(seconds=skew)
    monkeypatch.setattr(shared_clock, "now", lambda: at)
    request: Any = JobRequest.__new__(JobRequest)
    request.id = str(uuid.uuid4())
    request.expires = datetime.now(UTC) + timedelta(seconds=5)
    assert request.maybe_expire() is has_expired
    assert Job.Request == f"{JobRequest.__module__}:{JobRequest.__name__}"
