"""Celery's signals and tasks."""

import threading

import pytest
from django.db import OperationalError

from coulisse_site.celery import app
from tasks import tasks
from tasks.queue import lease_recovery


def test_repeated_stop_stops_once(monkeypatch: pytest.MonkeyPatch):
    stopped: list[bool] = []
    ending = threading.Thread(target=lambda: stopped.append(True))
    monkeypatch.setattr(tasks, "_stop_thread", ending)
    tasks.stop_service()
    tasks.stop_service()
    tasks.wait_for_stop()
    tasks.stop_service()
    assert stopped == [True]


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [(OperationalError("gone\nHINT: see"), False), (ValueError("ours"), True)],
)
def test_database_outage_is_logged_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    has_traceback: bool,
):
    def fail() -> bool:
        raise error

    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    app.tasks["tasks.tasks.recover"].apply()
    records = [record for record in caplog.records if record.levelname != "INFO"]
    assert [bool(record.exc_info) for record in records] == [has_traceback]
    if not has_traceback:
        (line,) = records
        assert line.getMessage() == (
            "tasks.tasks.recover skipped: database unavailable: gone"
        )
