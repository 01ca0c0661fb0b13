"""Crons run once per tick in any number of beats, and report missed ticks."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction

from access.users import identity
from config import live
from core.ids import UserId
from tasks.models import Task
from tests.tasks.conftest import TIMEOUT_SECONDS
from tests.triggers.manual_beat import ManualBeat
from tests.triggers.trigger_yaml import (
    NOON,
    Configure,
    cron,
    runs,
    state,
    ticks,
    unique,
    yaml,
)
from triggers.models import PeriodicAgentTask
from triggers.runs import trigger_runs
from triggers.scheduling import due_ticks

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> str:
    return unique("standup")


def test_tick_creates_a_task_of_the_agent(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "*/5 * * * *")))
    beat.check()

    beat.check(299)
    assert runs(name) == []
    beat.check(300)

    (task,) = runs(name)
    assert (task.kind, task.agent, task.prompt) == ("agent", "assistant", "It is time.")
    assert task.state == "queued"
    assert task.payload["tick"] == "2026-03-02T12:05:00Z"
    assert task.payload["learns"] is False


def test_beats_that_start_at_once_store_the_crons_once(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    has_stored = threading.Event()

    def follow_first() -> None:
        with transaction.atomic():
            PeriodicAgentTask.objects.follow_file(live.current())
            has_stored.set()
            time.sleep(0.3)  # The other one starts meanwhile.
        connection.close()

    def follow_second() -> None:
        has_stored.wait(timeout=TIMEOUT_SECONDS)
        PeriodicAgentTask.objects.follow_file(live.current())
        connection.close()

    with ThreadPoolExecutor(2) as pool:
        for following in (pool.submit(follow_first), pool.submit(follow_second)):
            following.result(timeout=TIMEOUT_SECONDS)
    assert PeriodicAgentTask.objects.filter(name=name).count() == 1


def test_tick_runs_once_despite_repeated_checks(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    for seconds in (60, 60, 61, 119, 120, 120.5):
        beat.check(seconds)
    assert ticks(name) == ["2026-03-02T12:01:00Z", "2026-03-02T12:02:00Z"]
    assert state(name).run_count == 2


def test_six_field_expression_starts_with_seconds(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "*/20 0 12 * * *")))
    beat.check()
    beat.check(45)
    assert ticks(name) == ["2026-03-02T12:00:20Z", "2026-03-02T12:00:40Z"]


def test_two_schedulers_run_once(configure: Configure, name: str, beat: ManualBeat):
    configure(yaml(cron(name, "* * * * * *")))
    beat.check()
    barrier = threading.Barrier(2)

    def run_beat() -> None:
        other = ManualBeat()
        for seconds in range(1, 11):
            barrier.wait(TIMEOUT_SECONDS)
            other.check(seconds)
        connection.close()

    others = [threading.Thread(target=run_beat) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(TIMEOUT_SECONDS)

    assert len(ticks(name)) == len(set(ticks(name))) == 10
    # The second one did not even try.
    assert (state(name).run_count, state(name).repeated) == (10, 0)


def test_clock_set_back_runs_nothing_twice(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    beat.check(60)
    beat.check(120)

    beat.check(since=NOON - timedelta(hours=1))
    beat.check(60)
    beat.check(120)
    beat.check(180)

    assert len(ticks(name)) == len(set(ticks(name))) == 3


def test_clock_years_ahead_does_not_stop_a_cron(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check(since=NOON + timedelta(days=3650))
    caplog.set_level("WARNING", "triggers.runs.run_log")
    beat.check()
    beat.check(60)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]
    assert (
        f"cron trigger rescheduled, because the clock was set back trigger={name}"
        in caplog.text
    )


def test_missed_ticks_are_reported_and_not_run(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    configure(yaml(cron(name, "*/10 * * * *")))
    beat.check()
    caplog.set_level("INFO", "triggers.runs.run_log")

    beat.check(3 * 3600 + 120)

    assert runs(name) == []
    stored = state(name)
    assert stored.missed == 18
    assert stored.missed_at == NOON + timedelta(hours=3)
    assert f"cron trigger missed trigger={name} ticks=18" in caplog.text
    assert "last=2026-03-02T15:00:00Z" in caplog.text


def test_tick_within_the_last_minute_runs_late(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "*/10 * * * *")))
    beat.check()
    beat.check(3 * 3600 + 59)
    assert ticks(name) == ["2026-03-02T15:00:00Z"]
    assert state(name).missed == 17


@pytest.mark.parametrize(
    ("catch_up", "ran", "missed"), [("true", 18, 0), ("last", 1, 17)]
)
def test_missed_ticks_run_with_catch_up(
    configure: Configure,
    name: str,
    beat: ManualBeat,
    catch_up: str,
    ran: int,
    missed: int,
):
    configure(yaml(cron(name, "*/10 * * * *", f"catch_up: {catch_up}")))
    beat.check()
    beat.check(3 * 3600 + 120)
    beat.check(3 * 3600 + 121)
    assert len(runs(name)) == ran
    assert ticks(name)[-1] == "2026-03-02T15:00:00Z"
    assert state(name).missed == missed


def test_catch_up_is_limited_to_a_hundred(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * * *", "catch_up: true")))
    beat.check()
    beat.check(3600)
    # A hundred late ticks, and those of the last minute.
    assert len(runs(name)) == 160
    assert ticks(name)[0] == "2026-03-02T12:57:21Z"
    assert state(name).missed == 3600 - 160


def test_missed_tick_count_is_capped(configure: Configure, name: str, beat: ManualBeat):
    configure(yaml(cron(name, "* * * * * *", "catch_up: last")))
    beat.check(since=NOON - timedelta(days=3650))
    beat.check(0)
    assert len(runs(name)) == 60
    assert state(name).missed == due_ticks.MAX_COUNTED


def test_schedule_edit_restarts_the_cron(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    configure(yaml(cron(name, "*/30 * * * *")))
    beat.check(since=NOON + timedelta(hours=1))
    beat.check(3600 + 60)
    assert runs(name) == []
    beat.check(3600 + 1800)
    assert ticks(name) == ["2026-03-02T13:30:00Z"]
    assert state(name).missed == 0


def test_disabled_cron_misses_nothing(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    configure(yaml(cron(name, "* * * * *", "enabled: false")))
    beat.check(since=NOON + timedelta(seconds=10))
    beat.check(600)
    configure(yaml(cron(name, "* * * * *")))
    beat.check(since=NOON + timedelta(seconds=1000))
    beat.check(1020)
    assert ticks(name) == ["2026-03-02T12:17:00Z"]
    assert state(name).missed == 0


def test_beat_that_has_not_read_an_edit_runs_nothing(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    unread = PeriodicAgentTask.objects.get(name=name)
    configure(yaml(cron(name, "*/30 * * * *")))
    beat.check(1)
    assert unread.run_due(live.current(), NOON + timedelta(seconds=60)) == []
    assert runs(name) == []


def test_skip_if_running_waits_for_the_run(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    configure(yaml(cron(name, "* * * * *", "skip_if_running: true")))
    beat.check()
    caplog.set_level("INFO", "triggers.runs.run_log")
    for seconds in (60, 120, 180):
        beat.check(seconds)
    Task.objects.filter(origin=trigger_runs.task_origin(name)).update(state="done")
    beat.check(240)
    assert ticks(name) == ["2026-03-02T12:01:00Z", "2026-03-02T12:04:00Z"]
    assert (state(name).run_count, state(name).skipped) == (2, 2)
    # Consecutive skips are logged once.
    skipped = f"cron trigger skipped trigger={name}"
    assert caplog.text.count(skipped) == 1
    beat.check(300)
    assert caplog.text.count(skipped) == 2


def test_disabled_tasks_stop_crons(configure: Configure, name: str, beat: ManualBeat):
    configure(yaml(cron(name, "* * * * *"), more="tasks: {enabled: false}"))
    beat.check()
    beat.check(60)
    assert runs(name) == []


@pytest.mark.parametrize(
    ("more", "own", "expected"),
    [
        ("", "", "cron"),
        ("users: shared", "", "main"),
        ("default_user_id: dora", "", "dora"),
        ("default_user_id: dora", "user: team", "team"),
    ],
)
def test_cron_runs_for_its_user(
    configure: Configure,
    name: str,
    beat: ManualBeat,
    more: str,
    own: str,
    expected: str,
):
    configure(yaml(cron(name, "* * * * *", own), more=more))
    beat.check()
    beat.check(60)
    (task,) = runs(name)
    assert UserId(task.user_id) == identity.derive_user_id(expected)


def test_cron_may_use_its_own_thread(configure: Configure, name: str, beat: ManualBeat):
    configure(yaml(cron(name, "* * * * *", "thread: standups, learns: true")))
    beat.check()
    beat.check(60)
    (task,) = runs(name)
    assert task.payload["metadata"] == {"thread_id": "standups"}
    assert task.payload["learns"] is True
