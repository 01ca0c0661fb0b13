"""Beat sends due jobs once, and logs an unavailable broker once."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from celery.beat import SchedulingError

from coulisse_site.celery import app
from processes.beat import BeatScheduler


@pytest.fixture
def schedule(tmp_path: Path) -> str:
    return str(tmp_path / "beat-schedule")


@pytest.fixture
def sent(monkeypatch) -> list[str]:
    """The jobs that were sent."""
    names: list[str] = []
    monkeypatch.setattr(BeatScheduler, "producer", None)  # It would wait for a broker.
    monkeypatch.setattr(
        BeatScheduler,
        "apply_async",
        lambda self, entry, **options: names.append(entry.task),
    )
    return names


@pytest.fixture
def beat(schedule: str) -> Iterator[BeatScheduler]:
    beat = BeatScheduler(app=app, schedule_filename=schedule)
    yield beat
    beat.close()


def test_beat_sends_missed_jobs_once(schedule: str, sent: list[str]) -> None:
    stopped = BeatScheduler(app=app, schedule_filename=schedule)
    for entry in stopped.schedule.values():
        entry.last_run_at -= timedelta(days=1)
    stopped.close()
    beat = BeatScheduler(app=app, schedule_filename=schedule)
    for _ in range(20):
        beat.tick()
    beat.close()
    assert sorted(sent) == sorted(
        entry["task"] for entry in app.conf.beat_schedule.values()
    )


def test_new_beat_sends_nothing_yet(beat: BeatScheduler, sent: list[str]) -> None:
    beat.tick()
    assert sent == []


def test_scheduled_messages_expire_before_the_next(beat: BeatScheduler) -> None:
    for entry in beat.schedule.values():
        assert entry.options["expires"] == entry.schedule.seconds


def test_unavailable_broker_is_logged_once(
    beat: BeatScheduler, monkeypatch, caplog
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise SchedulingError("no connection")

    entry = next(iter(beat.schedule.values()))
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(BeatScheduler, "apply_async", refuse)
            beat.apply_entry(entry)
            beat.apply_entry(entry)
        monkeypatch.setattr(
            BeatScheduler, "apply_async", lambda self, entry, **options: None
        )
        beat.apply_entry(entry)
    records = (record for record in caplog.records if record.name == "processes.beat")
    messages = [record.getMessage() for record in records]
    assert messages == ["no connection; due jobs wait for the broker"] * 2
