"""Schedules of tests, and deletion of expired runs."""

from datetime import UTC, datetime, timedelta

import pytest

from database import retention
from smoke import tasks
from smoke.models import SmokeMessage, SmokeRun
from tasks.models import Task
from tests.smoke.conftest import RunWorker, launch_queued
from tests.smoke.scripted_models import ScriptedModels, with_test

pytestmark = pytest.mark.database

# A tick of its own for each test: one is launched once.
FOUR = datetime(2031, 5, 6, 4, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FIELDS = 'schedule: "0 4 * * *"\nrepetitions: 2'


@pytest.fixture
def scheduled(models: ScriptedModels, configure) -> None:
    configure(with_test(FIELDS))


def close(launched: list[SmokeRun]) -> None:
    SmokeRun.objects.filter(pk__in=[run.pk for run in launched]).cancel()


def test_scheduled_test_is_launched_when_due(scheduled: None):
    assert tasks.launch_due(now=FOUR - SECOND) == []

    launched = tasks.launch_due(now=FOUR + 20 * SECOND)

    assert [(run.test, run.repetition) for run in launched] == [
        ("mine", 1),
        ("mine", 2),
    ]
    assert {run.origin for run in launched} == {"schedule"}
    rows = Task.objects.filter(key__in=[f"smoke:{run.pk}" for run in launched])
    assert [task.state for task in rows] == ["queued", "queued"]
    close(launched)


def test_parallel_sweeps_launch_a_test_once(
    scheduled: None, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", logger="smoke.tasks")
    at = FOUR + timedelta(days=1)
    launched = tasks.launch_due(now=at)
    assert len(launched) == 2
    assert tasks.launch_due(now=at) == []
    assert tasks.launch_due(now=at + 30 * SECOND) == []
    logged = [message for message in caplog.messages if "by its schedule" in message]
    assert logged == ["smoke test 'mine' launched by its schedule: 2 conversations"]
    close(launched)
    again = tasks.launch_due(now=at + timedelta(days=1))
    assert len(again) == 2
    assert {run.batch for run in again} != {run.batch for run in launched}
    close(again)


def test_missed_schedule_time_is_skipped(scheduled: None):
    late = FOUR + timedelta(days=3) + tasks.SCHEDULE_GRACE
    assert tasks.launch_due(now=late) == []


def test_disabled_tasks_launch_nothing(models: ScriptedModels, configure):
    configure(with_test(FIELDS).replace("tasks: {}", "tasks: {enabled: false}"))
    at = FOUR + timedelta(days=4)
    assert tasks.launch_due(now=at) == []
    configure(with_test(FIELDS))
    launched = tasks.launch_due(now=at)
    assert len(launched) == 2
    close(launched)


def test_schedule_uses_the_configured_time_zone(models: ScriptedModels, configure):
    configure(with_test(f"{FIELDS}\ntime_zone: Asia/Tokyo"))
    assert tasks.launch_due(now=FOUR + timedelta(days=5)) == []
    tokyo = FOUR + timedelta(days=5) - timedelta(hours=9)
    launched = tasks.launch_due(now=tokyo)
    assert len(launched) == 2
    close(launched)


def test_sweep_task_launches_due_tests(models: ScriptedModels, configure):
    configure(with_test('schedule: "* * * * *"'))
    tasks.close_and_launch()
    launched = SmokeRun.objects.filter(test="mine", origin="schedule", state="queued")
    assert launched.exists()
    close(list(launched))


# Expired runs.


def test_old_runs_are_deleted(models: ScriptedModels, worker: RunWorker):
    old, new = worker.run_test(), worker.run_test()
    waiting, *_ = launch_queued("judged")
    expired_at = datetime.now(UTC) - timedelta(days=31)
    SmokeRun.objects.filter(pk__in=[old.pk, waiting.pk]).update(created_at=expired_at)
    SmokeRun.objects.filter(pk=waiting.pk).cancel()
    SmokeRun.objects.filter(pk=waiting.pk).update(state="queued")

    assert retention.delete_expired(SmokeRun, datetime.now(UTC)) >= 1

    remaining = SmokeRun.objects.filter(pk__in=[old.pk, new.pk, waiting.pk])
    assert {run.pk for run in remaining} == {new.pk, waiting.pk}
    assert not SmokeMessage.objects.filter(run_id=old.pk).exists()
    assert new.messages.exists()
    SmokeRun.objects.filter(pk=waiting.pk).update(state="cancelled")


def test_keep_days_of_a_test_is_respected(
    models: ScriptedModels, worker: RunWorker, configure
):
    configure(with_test("max_turns: 1\nkeep_days: null"))
    old = worker.run_test("mine")
    SmokeRun.objects.filter(pk=old.pk).update(
        created_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    retention.delete_expired(SmokeRun, datetime.now(UTC))
    assert SmokeRun.objects.filter(pk=old.pk).exists()

    configure(with_test("max_turns: 1\nkeep_days: 1"))
    retention.delete_expired(SmokeRun, datetime.now(UTC))
    assert not SmokeRun.objects.filter(pk=old.pk).exists()
