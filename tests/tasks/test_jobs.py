"""How Celery's signals begin and end the work."""

import threading

import pytest

from tasks import jobs


def test_who_is_told_twice_to_stop_stops_once(monkeypatch: pytest.MonkeyPatch):
    stopped: list[bool] = []
    ending = threading.Thread(target=lambda: stopped.append(True))
    monkeypatch.setattr(jobs, "_ending", ending)
    jobs.end()
    jobs.end()
    jobs.wait()
    jobs.end()
    assert stopped == [True]
