"""Beat runs due crons, follows the YAML, and runs boot triggers once per start."""

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from django.db import OperationalError, connection

from core.ids import UserId
from coulisse_site.celery import app
from tasks.models import Task
from tasks.queue import publisher
from tests.tasks.conftest import RunnerHarness, wait_until
from tests.triggers.manual_beat import ManualBeat
from tests.triggers.trigger_yaml import (
    Configure,
    boot,
    cron,
    runs,
    state,
    ticks,
    unique,
    yaml,
)
from triggers.models import PeriodicAgentTask, ServerStart
from triggers.scheduling import server_start_id
from triggers.scheduling.beat_scheduler import BeatScheduler

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> str:
    return unique("watch")


@pytest.fixture
def notifications(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """The notifications of workers."""
    sent: list[None] = []
    monkeypatch.setattr(publisher, "notify", lambda *_: sent.append(None))
    return sent


def test_cron_runs_each_tick_and_notifies_the_workers(
    configure: Configure, name: str, beat: ManualBeat, notifications: list[None]
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    beat.check(59)
    assert (ticks(name), notifications) == ([], [])
    beat.check(60)
    assert (ticks(name), len(notifications)) == (["2026-03-02T12:01:00Z"], 1)
    beat.check(121)
    assert (len(ticks(name)), len(notifications)) == (2, 2)


def test_scheduled_crons_are_logged(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    caplog.set_level("INFO", "triggers.runs.run_log")
    configure(yaml(cron(name, "0 9 * * *")))
    beat.check()
    beat.check(1)
    armed = f"cron trigger armed trigger={name} agent=assistant"
    assert caplog.text.count(armed) == 1
    assert "next=2026-03-03T09:00:00Z" in caplog.text


def test_yaml_edit_takes_effect(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    caplog.set_level("INFO", "triggers.runs.run_log")
    configure(yaml(cron(name, "0 9 * * *")))
    beat.check()
    caplog.clear()

    configure(yaml(cron(name, "* * * * *"), cron(f"{name}-b", "* * * * *")))
    beat.check(1)
    beat.check(60)
    assert ticks(name) == ticks(f"{name}-b") == ["2026-03-02T12:01:00Z"]
    assert caplog.text.count("cron trigger armed") == 2

    # One is removed, and the other does not change.
    configure(yaml(cron(name, "* * * * *")))
    beat.check(120)
    assert caplog.text.count("cron trigger armed") == 2
    assert (len(ticks(name)), len(ticks(f"{name}-b"))) == (2, 1)


def test_unrelated_edit_does_not_rearm_a_cron(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    caplog.set_level("INFO", "triggers.runs.run_log")
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    caplog.clear()
    configure(yaml(cron(name, "* * * * *"), more="users: shared"))
    beat.check(1)
    beat.check(60)
    assert "armed" not in caplog.text
    assert len(ticks(name)) == 1


def test_changed_prompt_applies_to_the_next_tick(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    configure(yaml(cron(name, "* * * * *")).replace("It is time.", "Hurry up."))
    beat.check(60)
    assert runs(name)[0].prompt == "Hurry up."


def test_system_clock_change_does_not_repeat_a_tick(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    beat.check(60)
    # Forward: the skipped ticks are reported.
    beat.check(3600)
    assert len(ticks(name)) == 2
    assert state(name).missed == 58
    # Back: ticks that have run do not run again, the others run now.
    beat.check(30)
    beat.check(60)
    beat.check(120)
    assert ticks(name) == [
        "2026-03-02T12:01:00Z",
        "2026-03-02T12:02:00Z",
        "2026-03-02T13:00:00Z",
    ]
    beat.check(3600)
    assert ticks(name).count("2026-03-02T13:00:00Z") == 1


def test_many_due_crons_run_in_one_check(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(*(cron(f"{name}-{n}", "* * * * *") for n in range(50))))
    beat.check()
    beat.check(60)
    assert all(len(ticks(f"{name}-{n}")) == 1 for n in range(50))


def test_failing_cron_does_not_stop_the_others(
    configure: Configure, name: str, beat: ManualBeat, monkeypatch, caplog
):
    run_due = PeriodicAgentTask.run_due

    def fail(row: PeriodicAgentTask, *arguments: object) -> object:
        if row.name == name:
            raise PermissionError("permission denied")
        return run_due(row, *arguments)

    configure(yaml(cron(name, "* * * * *"), cron(f"{name}-b", "* * * * *")))
    beat.check()
    with monkeypatch.context() as patch:
        patch.setattr(PeriodicAgentTask, "run_due", fail)
        beat.check(60)
    assert (ticks(name), len(ticks(f"{name}-b"))) == ([], 1)
    assert f"could not run the periodic task '{name}'" in caplog.text
    beat.check(120)
    assert ticks(name) == ["2026-03-02T12:02:00Z"]


def test_every_second_cron_runs_each_second(
    configure: Configure, name: str, task_runner: RunnerHarness, user_id: UserId
):
    configure(yaml(cron(name, "* * * * * *", f"user: {user_id}")))
    is_stopping = threading.Event()

    def run_beat() -> None:
        beat = BeatScheduler(app=app)
        while not is_stopping.is_set():
            time.sleep(max(beat.tick(), 0))
            task_runner.check_queue()
        connection.close()

    running = threading.Thread(target=run_beat)
    running.start()

    def have_consecutive_ticks_run_in_time() -> bool:
        return any(
            second.at - first.at == timedelta(seconds=1)
            and all(each.is_done and each.was_in_time for each in (first, second))
            for first, second in pairwise(map(TickRun, runs(name)))
        )

    try:
        # On a busy machine it may take longer.
        wait_until(have_consecutive_ticks_run_in_time)
    finally:
        is_stopping.set()
        running.join()
    assert all(run.late >= timedelta(0) for run in map(TickRun, runs(name)))


class TickRun:
    """The result of a tick."""

    def __init__(self, task: Task) -> None:
        self.at = datetime.fromisoformat(task.payload["tick"])
        self.late = task.created_at - self.at
        self.was_in_time = self.late < timedelta(seconds=0.9)
        self.is_done = task.state == "done"


# Boot triggers.


def test_boot_trigger_runs_once_per_start(
    configure: Configure, name: str, beat: ManualBeat, monkeypatch: pytest.MonkeyPatch
):
    configure(yaml(boot(name)))
    beat.check()
    (task,) = runs(name)
    assert (task.prompt, task.agent) == ("Good morning.", "assistant")

    # A restarted beat, and another one, belong to the same start.
    ManualBeat().check(60)
    assert len(runs(name)) == 1

    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)
    ManualBeat().check(120)
    assert len(runs(name)) == 2


def test_new_boot_trigger_waits_for_the_next_start(
    configure: Configure, name: str, beat: ManualBeat
):
    beat.check()
    configure(yaml(boot(name)))
    beat.check(1)
    ManualBeat().check(2)
    assert runs(name) == []


def test_boot_trigger_is_not_skipped_for_a_run_that_a_crash_interrupted(
    configure: Configure, name: str, beat: ManualBeat, monkeypatch: pytest.MonkeyPatch
):
    configure(
        yaml(
            boot(name) + ", skip_if_running: yes",
            more="tasks: {rerun_interrupted: no}",
        )
    )
    beat.check()
    # The worker that ran it has died, and its lease expired.
    Task.objects.filter(pk=runs(name)[0].pk).update(state="running", worker="gone")

    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)
    ManualBeat().check(60)
    assert sorted(task.state for task in runs(name)) == ["errored", "queued"]


@pytest.fixture
def separate(beat: ManualBeat, monkeypatch: pytest.MonkeyPatch) -> Iterator[ManualBeat]:
    """A beat without `start`."""
    monkeypatch.delenv(server_start_id.VARIABLE)
    ServerStart.objects.filter(is_separate=True).delete()
    yield beat
    ServerStart.objects.filter(is_separate=True).delete()


def test_first_separate_beat_is_the_start(
    configure: Configure, name: str, separate: ManualBeat
):
    configure(yaml(boot(name)))
    separate.check()
    ManualBeat().check(1)
    assert len(runs(name)) == 1

    # One stops and returns, while the other runs.
    separate.check(20)
    ServerStart.objects.deregister()
    ManualBeat().check(25)
    assert len(runs(name)) == 1


def test_separate_beat_after_all_others_stopped_is_a_start(
    configure: Configure, name: str, separate: ManualBeat
):
    configure(yaml(boot(name)))
    other = ManualBeat()
    separate.check()
    other.check(1)
    for each in (separate, other):
        assert each.scheduler is not None
        each.scheduler.close()
    ManualBeat().check(2)
    assert len(runs(name)) == 2


def test_killed_separate_beat_counts_as_alive_until_silence_expires(
    configure: Configure, name: str, separate: ManualBeat
):
    configure(yaml(boot(name)))
    separate.check()
    separate.check(20)
    ManualBeat().check(45)
    assert len(runs(name)) == 1
    # After half a minute without a heartbeat it counts as stopped.
    ManualBeat().check(80)
    assert len(runs(name)) == 2


# An unavailable database.


def test_tick_during_database_outage_runs_afterwards(
    configure: Configure, name: str, beat: ManualBeat, monkeypatch, caplog
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()

    with monkeypatch.context() as patch:
        patch.setattr(PeriodicAgentTask, "run_due", fail_unavailable)
        beat.check(60)
        beat.check(61)
    assert caplog.text.count("due tasks wait for the database") == 1
    beat.check(90)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]

    configure(yaml(cron(name, "* * * * *"), cron(f"{name}-b", "* * * * *")))
    with monkeypatch.context() as patch:
        patch.setattr(type(PeriodicAgentTask.objects), "follow_file", fail_unavailable)
        beat.check(95)
    beat.check(96)
    beat.check(120)
    assert len(ticks(name)) == 2
    assert len(ticks(f"{name}-b")) == 1


def fail_unavailable(*_: object) -> None:
    raise OperationalError("the database is unavailable")
