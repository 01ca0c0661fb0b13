"""The scheduler runs due crons, and boot triggers once per start."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import OperationalError

from core.ids import UserId
from database.errors import DatabaseDown
from providers import sync_bridge
from tasks.models import Task
from tasks.queue import lease_recovery, lifecycle
from tasks.queue.lifecycle import TaskSpec
from tests.tasks.conftest import TIMEOUT_SECONDS, RunnerHarness, wait_until
from tests.triggers.trigger_yaml import (
    NOON,
    Configure,
    boot,
    cron,
    runs,
    state,
    ticks,
    unique,
    yaml,
)
from triggers.models import ServerStart
from triggers.scheduling import boot_triggers, cron_triggers, server_start_id
from triggers.scheduling.scheduler import TriggerScheduler

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> str:
    return unique("watch")


@pytest.fixture(autouse=True)
def _server_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)


class ManualClock:
    """A scheduler with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = NOON
        self.notifications = 0
        self.scheduler = TriggerScheduler(self._notify, now=lambda: self.now)

    def _notify(self) -> None:
        self.notifications += 1

    def check(self, now: datetime | None = None, *, seconds: float = 0) -> None:
        self.now = (now or self.now) + timedelta(seconds=seconds)
        sync_bridge.run_sync(self.scheduler.run_once(), timeout_seconds=TIMEOUT_SECONDS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_cron_runs_each_tick_and_notifies_the_workers(
    configure: Configure, name: str, clock: ManualClock
):
    configure(yaml(cron(name, "* * * * *")))
    clock.check()
    clock.check(seconds=59)
    assert (ticks(name), clock.notifications) == ([], 0)
    clock.check(seconds=1)
    assert (ticks(name), clock.notifications) == (["2026-03-02T12:01:00Z"], 1)
    clock.check(seconds=61)
    assert (len(ticks(name)), clock.notifications) == (2, 2)


def test_scheduled_crons_are_logged(
    configure: Configure, name: str, clock: ManualClock, caplog
):
    caplog.set_level("INFO", "triggers.runs.run_log")
    configure(yaml(cron(name, "0 9 * * *")))
    clock.check()
    clock.check(seconds=1)
    armed = f"cron trigger armed trigger={name} agent=assistant"
    assert caplog.text.count(armed) == 1
    assert "next=2026-03-03T09:00:00Z" in caplog.text


def test_yaml_edit_takes_effect(
    configure: Configure, name: str, clock: ManualClock, caplog
):
    configure(yaml(cron(name, "0 9 * * *")))
    clock.check()
    caplog.clear()

    configure(yaml(cron(name, "* * * * *"), cron(f"{name}-b", "* * * * *")))
    clock.check(seconds=1)
    clock.check(NOON, seconds=60)
    assert ticks(name) == ticks(f"{name}-b") == ["2026-03-02T12:01:00Z"]
    assert caplog.text.count("cron trigger armed") == 2

    # One is removed, and the other does not change.
    configure(yaml(cron(name, "* * * * *")))
    clock.check(NOON, seconds=120)
    assert caplog.text.count("cron trigger armed") == 2
    assert (len(ticks(name)), len(ticks(f"{name}-b"))) == (2, 1)


def test_unrelated_edit_does_not_rearm_a_cron(
    configure: Configure, name: str, clock: ManualClock, caplog
):
    configure(yaml(cron(name, "* * * * *")))
    clock.check()
    caplog.clear()
    configure(yaml(cron(name, "* * * * *"), more="users: shared"))
    clock.check(seconds=1)
    assert "armed" not in caplog.text


def test_system_clock_change_does_not_repeat_a_tick(
    configure: Configure, name: str, clock: ManualClock
):
    configure(yaml(cron(name, "* * * * *")))
    clock.check(NOON)
    clock.check(NOON, seconds=60)
    # Forward: the skipped ticks are reported.
    clock.check(NOON, seconds=3600)
    assert len(ticks(name)) == 2
    assert state(name).missed == 58
    # Back: ticks that have run do not run again, the others run now.
    clock.check(NOON, seconds=30)
    clock.check(NOON, seconds=60)
    clock.check(NOON, seconds=120)
    assert ticks(name) == [
        "2026-03-02T12:01:00Z",
        "2026-03-02T12:02:00Z",
        "2026-03-02T13:00:00Z",
    ]
    clock.check(NOON, seconds=3600)
    assert ticks(name).count("2026-03-02T13:00:00Z") == 1


def test_every_second_cron_runs_each_second(
    configure: Configure, name: str, task_runner: RunnerHarness, user_id: UserId
):
    configure(yaml(cron(name, "* * * * * *", f"user: {user_id}")))
    scheduler = TriggerScheduler(task_runner._runner.check_queue)
    running = sync_bridge.start(scheduler.run())

    def have_consecutive_ticks_run_in_time() -> bool:
        return any(
            second.at - first.at == timedelta(seconds=1)
            and all(each.is_done and each.was_in_time for each in (first, second))
            for first, second in pairwise(map(TickRun, runs(name)))
        )

    # On a busy machine it may take longer.
    wait_until(have_consecutive_ticks_run_in_time)
    running.cancel()
    assert all(run.late >= timedelta(0) for run in map(TickRun, runs(name)))


class TickRun:
    """The result of a tick."""

    def __init__(self, task: Task) -> None:
        self.at = datetime.fromisoformat(task.payload["tick"])
        self.late = task.created_at - self.at
        self.was_in_time = self.late < timedelta(seconds=0.9)
        self.is_done = task.state == "done"


# Tasks of dead workers.


def test_lost_task_is_recovered_without_a_message(clock: ManualClock, user_id: UserId):
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    clock.check()
    ago = datetime.now(UTC) - timedelta(seconds=1)
    row = Task.objects.filter(pk=task.pk)
    row.update(
        state="running",
        due_at=ago,
        interruptions=lifecycle.MAX_INTERRUPTIONS,
        worker="x",
    )
    clock.check(seconds=29)
    assert row.get().state == "running"
    clock.check(seconds=1)
    assert (row.get().state, row.get().error) == ("errored", lifecycle.INTERRUPTED)


def test_failed_sweep_does_not_stop_triggers(
    configure: Configure, name: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> bool:
        raise PermissionError("permission denied")

    configure(yaml(cron(name, "* * * * *")))
    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    clock.check()
    with pytest.raises(PermissionError):
        clock.check(seconds=60)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]
    clock.check(seconds=1)


# Boot triggers.


def test_boot_trigger_runs_once_per_start(
    configure: Configure, name: str, monkeypatch: pytest.MonkeyPatch
):
    configure(yaml(boot(name)))
    ManualClock().check()
    (task,) = runs(name)
    assert (task.prompt, task.agent) == ("Good morning.", "assistant")

    # A restarted worker, and another one, belong to the same start.
    ManualClock().check(seconds=60)
    assert len(runs(name)) == 1

    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)
    ManualClock().check(seconds=120)
    assert len(runs(name)) == 2


def test_new_boot_trigger_waits_for_the_next_start(configure: Configure, name: str):
    ManualClock().check()
    configure(yaml(boot(name)))
    ManualClock().check(seconds=1)
    assert runs(name) == []


@pytest.fixture
def separate_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(server_start_id.VARIABLE)
    ServerStart.objects.filter(is_separate=True).delete()
    yield
    ServerStart.objects.filter(is_separate=True).delete()


@pytest.mark.usefixtures("separate_workers")
def test_first_worker_is_the_start(configure: Configure, name: str):
    configure(yaml(boot(name)))
    first, second = ManualClock(), ManualClock()
    first.check()
    second.check(seconds=1)
    assert len(runs(name)) == 1

    # One stops and returns, while the other runs.
    first.check(NOON, seconds=20)
    boot_triggers.deregister_worker()
    ManualClock().check(NOON, seconds=25)
    assert len(runs(name)) == 1


@pytest.mark.usefixtures("separate_workers")
def test_worker_after_all_others_stopped_is_a_start(configure: Configure, name: str):
    configure(yaml(boot(name)))
    ManualClock().check()
    ManualClock().check(seconds=1)
    boot_triggers.deregister_worker()
    boot_triggers.deregister_worker()
    ManualClock().check(seconds=2)
    assert len(runs(name)) == 2


@pytest.mark.usefixtures("separate_workers")
def test_killed_worker_counts_as_alive_until_silence_expires(
    configure: Configure, name: str
):
    configure(yaml(boot(name)))
    worker = ManualClock()
    worker.check()
    worker.check(seconds=20)
    ManualClock().check(NOON, seconds=45)
    assert len(runs(name)) == 1
    # After half a minute without a heartbeat it counts as stopped.
    ManualClock().check(NOON, seconds=80)
    assert len(runs(name)) == 2


# An unavailable database.


def test_tick_during_database_outage_runs_afterwards(
    configure: Configure, name: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    configure(yaml(cron(name, "* * * * *")))
    clock.check(NOON)

    with monkeypatch.context() as patch:
        patch.setattr(cron_triggers, "run_due_triggers", fail_unavailable)
        with pytest.raises(DatabaseDown):
            clock.check(NOON, seconds=60)
    clock.check(NOON, seconds=90)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]

    with monkeypatch.context() as patch:
        patch.setattr(cron_triggers, "schedule_triggers", fail_unavailable)
        with pytest.raises(DatabaseDown):
            clock.check(NOON, seconds=-3600)
    clock.check(NOON, seconds=-3599)
    clock.check(NOON, seconds=-3540)
    assert len(ticks(name)) == 2


def fail_unavailable(*_: object) -> None:
    raise OperationalError("the database is unavailable")
