"""Alerts of the home page about processes, the queue, providers and the disk."""

import uuid
from datetime import UTC, datetime

import pytest
from django.db import transaction

from database import running_processes
from database.running_processes import STATE, Fleet
from providers.transport import endpoint_pool
from studio.monitoring import fleet_alerts
from tasks.models import Task
from tasks.queue import task_kinds

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def messages():
    return [each.message for each in fleet_alerts.list_alerts()]


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setattr(running_processes, "SETTLED_AFTER_SECONDS", -1)
    monkeypatch.setattr(STATE, "fleet", Fleet(webs=1, workers=1, beats=1))
    monkeypatch.setattr(endpoint_pool, "open_circuits", lambda: iter(()))
    monkeypatch.setattr(fleet_alerts, "LOW_BYTES", 0)
    # Other tests leave tasks.
    monkeypatch.setattr(fleet_alerts, "OLD_SECONDS", float("inf"))


def test_healthy_fleet_raises_no_alert():
    assert messages() == []


def test_missing_processes_and_different_files_raise_alerts(monkeypatch):
    monkeypatch.setattr(STATE, "fleet", Fleet(webs=2, config_digests=["a", "b"]))
    assert messages() == [
        "No worker runs, so background work waits",
        "No beat runs, so crons and maintenance wait",
        "Processes use different YAML files",
    ]


def test_task_that_waits_long_raises_an_alert(monkeypatch):
    monkeypatch.setattr(fleet_alerts, "OLD_SECONDS", 300)
    kind = next(iter(task_kinds.names()))
    due_at = datetime(2001, 1, 1, tzinfo=UTC)
    with transaction.atomic():
        Task.objects.create(
            id=uuid.uuid4(),
            kind=kind,
            user_id=uuid.uuid4(),
            due_at=due_at,
            created_at=due_at,
        )
        found = messages()
        transaction.set_rollback(True)
    [message] = found
    assert message.startswith("A task has been due for ")


def test_open_circuit_raises_one_alert_for_each_provider(monkeypatch):
    circuits = [("acme", "m1", "a"), ("acme", "m2", "a"), ("beta", "m", "b")]
    monkeypatch.setattr(endpoint_pool, "open_circuits", lambda: iter(circuits))
    assert messages() == [
        "Calls of provider 'acme' are suspended after failures",
        "Calls of provider 'beta' are suspended after failures",
    ]


def test_full_disk_raises_an_alert(monkeypatch):
    monkeypatch.setattr(fleet_alerts, "LOW_BYTES", 2**62)
    (message,) = messages()
    assert message.startswith("The disk of ")
