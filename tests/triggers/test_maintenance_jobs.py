"""Beat sends maintenance jobs to workers once, however many beats run."""

import threading
from datetime import timedelta

import pytest
from celery.beat import SchedulingError
from django.db.models import F
from django_celery_beat.models import PeriodicTask

from coulisse_site.celery import app
from triggers.scheduling import beat_scheduler
from triggers.scheduling.beat_scheduler import BeatScheduler

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]

JOBS = sorted(entry["task"] for entry in app.conf.beat_schedule.values())


@pytest.fixture(autouse=True)
def _no_rows() -> None:
    PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM).delete()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that were sent."""
    names: list[str] = []
    monkeypatch.setattr(
        BeatScheduler,
        "apply_async",
        lambda self, entry, **options: names.append(entry.task),
    )
    return names


def run_due(*beats: BeatScheduler) -> None:
    for _ in range(3 * len(JOBS)):
        for beat in beats:
            beat.tick()
    for beat in beats:
        beat._publisher.shutdown()


def make_overdue() -> None:
    PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM).update(
        last_run_at=F("last_run_at") - timedelta(days=1)
    )


def test_overdue_jobs_are_sent_once_by_two_beats(sent: list[str]):
    run_due(BeatScheduler(app=app))
    make_overdue()
    run_due(BeatScheduler(app=app), BeatScheduler(app=app))
    assert sorted(sent) == JOBS
    runs = PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM)
    assert {job.total_run_count for job in runs} == {1}


def test_new_beat_sends_nothing_yet(sent: list[str]):
    run_due(BeatScheduler(app=app))
    assert sent == []


def test_restart_keeps_the_time_of_the_last_run(sent: list[str]):
    run_due(BeatScheduler(app=app))
    jobs = PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM)
    before = dict(jobs.values_list("name", "last_run_at"))
    assert None not in before.values()
    run_due(BeatScheduler(app=app))
    assert dict(jobs.values_list("name", "last_run_at")) == before


def test_messages_expire_before_the_next():
    for entry in BeatScheduler(app=app).schedule.values():
        assert entry.options["expires"] == entry.schedule.seconds


def test_removed_jobs_are_deleted(sent: list[str], monkeypatch: pytest.MonkeyPatch):
    run_due(BeatScheduler(app=app))
    name, entry = next(iter(app.conf.beat_schedule.items()))
    monkeypatch.setitem(app.conf, "beat_schedule", {name: entry})
    run_due(BeatScheduler(app=app))
    jobs = PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM)
    assert [job.name for job in jobs] == [name]


def test_hanging_broker_delays_nothing_else(monkeypatch: pytest.MonkeyPatch):
    is_released = threading.Event()
    monkeypatch.setattr(
        BeatScheduler, "apply_async", lambda *_, **__: is_released.wait(60)
    )
    BeatScheduler(app=app).tick()
    make_overdue()
    beat = BeatScheduler(app=app)
    for _ in range(3 * len(JOBS)):
        beat.tick()
    runs = PeriodicTask.objects.filter(description=beat_scheduler.SYSTEM)
    assert {job.total_run_count for job in runs} == {1}
    is_released.set()
    beat._publisher.shutdown()


def test_unavailable_broker_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog):
    def refuse(*arguments: object, **options: object) -> None:
        raise SchedulingError("no connection")

    beat = BeatScheduler(app=app)
    entry = next(iter(beat.schedule.values()))
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(BeatScheduler, "apply_async", refuse)
            beat._publish(entry)
            beat._publish(entry)
        monkeypatch.setattr(
            BeatScheduler, "apply_async", lambda self, entry, **options: None
        )
        beat._publish(entry)
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("no connection; due jobs wait for the broker") == 2
