"""Crons run once per tick in any number of processes, and report missed ticks."""

import threading
from datetime import datetime, timedelta

import pytest
from django.db import connection

from access.users import identity
from config import live
from core.ids import UserId
from tasks.models import Task
from tests.tasks.conftest import TIMEOUT_SECONDS
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
from triggers.runs import trigger_runs
from triggers.scheduling import cron_triggers

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> str:
    return unique("standup")


def arm(at: datetime = NOON) -> None:
    cron_triggers.schedule_triggers(live.current(), at)


def check(seconds: float) -> None:
    """Run the triggers that are due this many seconds after noon."""
    cron_triggers.run_due_triggers(live.current(), NOON + timedelta(seconds=seconds))


def test_tick_creates_a_task_of_the_agent(configure: Configure, name: str):
    configure(yaml(cron(name, "*/5 * * * *")))
    arm()

    check(299)
    assert runs(name) == []
    check(300)

    (task,) = runs(name)
    assert (task.kind, task.agent, task.prompt) == ("agent", "assistant", "It is time.")
    assert task.state == "queued"
    assert task.payload["tick"] == "2026-03-02T12:05:00Z"
    assert task.payload["learns"] is False


def test_tick_runs_once_despite_repeated_checks(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    arm()
    for seconds in (60, 60, 61, 119, 120, 120.5):
        check(seconds)
    assert ticks(name) == ["2026-03-02T12:01:00Z", "2026-03-02T12:02:00Z"]
    assert state(name).run_count == 2


def test_six_field_expression_starts_with_seconds(configure: Configure, name: str):
    configure(yaml(cron(name, "*/20 0 12 * * *")))
    arm()
    check(45)
    assert ticks(name) == ["2026-03-02T12:00:20Z", "2026-03-02T12:00:40Z"]


def test_two_schedulers_run_once(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * * *")))
    arm()
    barrier = threading.Barrier(2)

    def run_scheduler() -> None:
        for seconds in range(1, 11):
            barrier.wait(TIMEOUT_SECONDS)
            check(seconds)
        connection.close()

    others = [threading.Thread(target=run_scheduler) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(TIMEOUT_SECONDS)

    assert len(ticks(name)) == len(set(ticks(name))) == 10
    # The second one did not even try.
    assert (state(name).run_count, state(name).repeated) == (10, 0)


def test_clock_set_back_runs_nothing_twice(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    arm()
    check(60)
    check(120)

    arm(NOON - timedelta(hours=1))
    check(60)
    check(120)
    check(180)

    assert len(ticks(name)) == len(set(ticks(name))) == 3


def test_clock_years_ahead_does_not_stop_a_cron(
    configure: Configure, name: str, caplog
):
    configure(yaml(cron(name, "* * * * *")))
    arm(NOON + timedelta(days=3650))
    caplog.set_level("WARNING", "triggers.runs.run_log")
    arm()
    check(60)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]
    assert (
        f"cron trigger rescheduled, because the clock was set back trigger={name}"
        in caplog.text
    )


def test_missed_ticks_are_reported_and_not_run(configure: Configure, name: str, caplog):
    configure(yaml(cron(name, "*/10 * * * *")))
    arm()
    caplog.set_level("INFO", "triggers.runs.run_log")

    check(3 * 3600 + 120)

    assert runs(name) == []
    stored = state(name)
    assert stored.missed == 18
    assert stored.missed_at == NOON + timedelta(hours=3)
    assert f"cron trigger missed trigger={name} ticks=18" in caplog.text
    assert "last=2026-03-02T15:00:00Z" in caplog.text


def test_tick_within_the_last_minute_runs_late(configure: Configure, name: str):
    configure(yaml(cron(name, "*/10 * * * *")))
    arm()
    check(3 * 3600 + 59)
    assert ticks(name) == ["2026-03-02T15:00:00Z"]
    assert state(name).missed == 17


@pytest.mark.parametrize(
    ("catch_up", "ran", "missed"), [("true", 18, 0), ("last", 1, 17)]
)
def test_missed_ticks_run_with_catch_up(
    configure: Configure, name: str, catch_up: str, ran: int, missed: int
):
    configure(yaml(cron(name, "*/10 * * * *", f"catch_up: {catch_up}")))
    arm()
    check(3 * 3600 + 120)
    check(3 * 3600 + 121)
    assert len(runs(name)) == ran
    assert ticks(name)[-1] == "2026-03-02T15:00:00Z"
    assert state(name).missed == missed


def test_catch_up_is_limited_to_a_hundred(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * * *", "catch_up: true")))
    arm()
    check(3600)
    # A hundred late ticks, and those of the last minute.
    assert len(runs(name)) == 160
    assert ticks(name)[0] == "2026-03-02T12:57:21Z"
    assert state(name).missed == 3600 - 160


def test_missed_tick_count_is_capped(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * * *", "catch_up: last")))
    arm(NOON - timedelta(days=3650))
    check(0)
    assert len(runs(name)) == 60
    assert state(name).missed == cron_triggers.MAX_COUNTED


def test_schedule_edit_restarts_the_cron(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    arm()
    configure(yaml(cron(name, "*/30 * * * *")))
    arm(NOON + timedelta(hours=1))
    check(3600 + 60)
    assert runs(name) == []
    check(3600 + 1800)
    assert ticks(name) == ["2026-03-02T13:30:00Z"]
    assert state(name).missed == 0


def test_disabled_cron_misses_nothing(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    arm()
    configure(yaml(cron(name, "* * * * *", "enabled: false")))
    arm(NOON + timedelta(seconds=10))
    check(600)
    configure(yaml(cron(name, "* * * * *")))
    arm(NOON + timedelta(seconds=1000))
    check(1020)
    assert ticks(name) == ["2026-03-02T12:17:00Z"]
    assert state(name).missed == 0


def test_process_with_an_older_yaml_runs_nothing(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *")))
    arm()
    older_config = live.current()
    configure(yaml(cron(name, "*/30 * * * *")))
    arm()
    cron_triggers.run_due_triggers(older_config, NOON + timedelta(seconds=60))
    assert runs(name) == []


def test_skip_if_running_waits_for_the_run(configure: Configure, name: str, caplog):
    configure(yaml(cron(name, "* * * * *", "skip_if_running: true")))
    arm()
    caplog.set_level("INFO", "triggers.runs.run_log")
    for seconds in (60, 120, 180):
        check(seconds)
    Task.objects.filter(origin=trigger_runs.task_origin(name)).update(state="done")
    check(240)
    assert ticks(name) == ["2026-03-02T12:01:00Z", "2026-03-02T12:04:00Z"]
    assert (state(name).run_count, state(name).skipped) == (2, 2)
    # Consecutive skips are logged once.
    skipped = f"cron trigger skipped trigger={name}"
    assert caplog.text.count(skipped) == 1
    check(300)
    assert caplog.text.count(skipped) == 2


def test_disabled_tasks_stop_crons(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *"), more="tasks: {enabled: false}"))
    arm()
    check(60)
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
    configure: Configure, name: str, more: str, own: str, expected: str
):
    configure(yaml(cron(name, "* * * * *", own), more=more))
    arm()
    check(60)
    (task,) = runs(name)
    assert UserId(task.user_id) == identity.derive_user_id(expected)


def test_cron_may_use_its_own_thread(configure: Configure, name: str):
    configure(yaml(cron(name, "* * * * *", "thread: standups, learns: true")))
    arm()
    check(60)
    (task,) = runs(name)
    assert task.payload["metadata"] == {"thread_id": "standups"}
    assert task.payload["learns"] is True
