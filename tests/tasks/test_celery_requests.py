"""What Celery's tools show of a running task."""

import uuid
from typing import Any

import pytest
from celery.worker import state

from core.ids import pseudonym
from tasks.models import Task
from tasks.worker.celery_requests import RowRequest, RowTask


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
