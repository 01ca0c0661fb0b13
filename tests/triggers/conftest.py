"""A beat with a clock of its own, and a worker's runner for the tasks of triggers."""

import uuid

import pytest

from coulisse_site.celery import app
from tests.tasks.conftest import task_runner, user_id  # noqa: F401
from tests.triggers.manual_beat import ManualBeat
from tests.triggers.trigger_yaml import NOON
from triggers.scheduling import server_start_id


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> ManualBeat:
    """A beat of a new start, without maintenance jobs."""
    monkeypatch.setattr(ManualBeat, "now", NOON)
    monkeypatch.setattr(app, "now", lambda: ManualBeat.now)
    monkeypatch.setitem(app.conf, "beat_schedule", {})
    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)
    return ManualBeat()
