"""How Celery's signals begin and end the work."""

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
    ("fault", "is_told_at_length"),
    [(OperationalError("gone\nHINT: see"), False), (ValueError("ours"), True)],
)
def test_database_outage_is_logged_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    is_told_at_length: bool,
):
    def fail() -> bool:
        raise fault

    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    app.tasks["tasks.tasks.sweep"].apply()
    told = [record for record in caplog.records if record.levelname != "INFO"]
    assert [bool(record.exc_info) for record in told] == [is_told_at_length]
    if not is_told_at_length:
        (line,) = told
        assert line.getMessage() == (
            "tasks.tasks.sweep skipped: database unavailable: gone"
        )
