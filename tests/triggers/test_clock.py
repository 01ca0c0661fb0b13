"""The clock: it fires crons when they are due, and what fires at the start once."""

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
from tests.tasks.conftest import PATIENCE_SECONDS, Working, wait_until
from tests.triggers.triggers import (
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
def _of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)


class Hands:
    """A clock that is given the time."""

    def __init__(self) -> None:
        self.now = NOON
        self.kicks = 0
        self.clock = TriggerScheduler(self._kick, now=lambda: self.now)

    def _kick(self) -> None:
        self.kicks += 1

    def look(self, now: datetime | None = None, *, seconds: float = 0) -> None:
        self.now = (now or self.now) + timedelta(seconds=seconds)
        sync_bridge.run_sync(self.clock.run_once(), timeout_seconds=PATIENCE_SECONDS)


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_cron_fires_each_tick_and_wakes_the_workers(
    configure: Configure, name: str, hands: Hands
):
    configure(yaml(cron(name, "* * * * *")))
    hands.look()
    hands.look(seconds=59)
    assert (ticks(name), hands.kicks) == ([], 0)
    hands.look(seconds=1)
    assert (ticks(name), hands.kicks) == (["2026-03-02T12:01:00Z"], 1)
    hands.look(seconds=61)
    assert (len(ticks(name)), hands.kicks) == (2, 2)


def test_armed_crons_are_logged(configure: Configure, name: str, hands: Hands, caplog):
    caplog.set_level("INFO", "triggers.runs.run_log")
    configure(yaml(cron(name, "0 9 * * *")))
    hands.look()
    hands.look(seconds=1)
    armed = f"cron trigger armed trigger={name} agent=assistant"
    assert caplog.text.count(armed) == 1
    assert "next=2026-03-03T09:00:00Z" in caplog.text


def test_yaml_edit_takes_effect(configure: Configure, name: str, hands: Hands, caplog):
    configure(yaml(cron(name, "0 9 * * *")))
    hands.look()
    caplog.clear()

    configure(yaml(cron(name, "* * * * *"), cron(f"{name}-b", "* * * * *")))
    hands.look(seconds=1)
    hands.look(NOON, seconds=60)
    assert ticks(name) == ticks(f"{name}-b") == ["2026-03-02T12:01:00Z"]
    assert caplog.text.count("cron trigger armed") == 2

    # One goes, and the other is as it was.
    configure(yaml(cron(name, "* * * * *")))
    hands.look(NOON, seconds=120)
    assert caplog.text.count("cron trigger armed") == 2
    assert (len(ticks(name)), len(ticks(f"{name}-b"))) == (2, 1)


def test_unrelated_edit_does_not_rearm_a_cron(
    configure: Configure, name: str, hands: Hands, caplog
):
    configure(yaml(cron(name, "* * * * *")))
    hands.look()
    caplog.clear()
    configure(yaml(cron(name, "* * * * *"), more="users: shared"))
    hands.look(seconds=1)
    assert "armed" not in caplog.text


def test_system_clock_change_does_not_repeat_a_tick(
    configure: Configure, name: str, hands: Hands
):
    configure(yaml(cron(name, "* * * * *")))
    hands.look(NOON)
    hands.look(NOON, seconds=60)
    # Forward: what was leapt over is reported.
    hands.look(NOON, seconds=3600)
    assert len(ticks(name)) == 2
    assert state(name).missed == 58
    # Back: what fired fires no more, what did not fires now.
    hands.look(NOON, seconds=30)
    hands.look(NOON, seconds=60)
    hands.look(NOON, seconds=120)
    assert ticks(name) == [
        *("2026-03-02T12:01:00Z", "2026-03-02T12:02:00Z", "2026-03-02T13:00:00Z"),
    ]
    hands.look(NOON, seconds=3600)
    assert ticks(name).count("2026-03-02T13:00:00Z") == 1


def test_every_second_cron_runs_each_second(
    configure: Configure, name: str, working: Working, user_id: UserId
):
    configure(yaml(cron(name, "* * * * * *", f"user: {user_id}")))
    clock = TriggerScheduler(working._runner.kick)
    watching = sync_bridge.start(clock.run())

    def have_two_run_in_time() -> bool:
        return any(
            second.at - first.at == timedelta(seconds=1)
            and all(each.is_done and each.was_in_time for each in (first, second))
            for first, second in pairwise(map(Fired, runs(name)))
        )

    # Where others keep the machine busy it may take some more.
    wait_until(have_two_run_in_time)
    watching.cancel()
    assert all(fired.late >= timedelta(0) for fired in map(Fired, runs(name)))


class Fired:
    """What became of a tick."""

    def __init__(self, task: Task) -> None:
        self.at = datetime.fromisoformat(task.payload["tick"])
        self.late = task.created_at - self.at
        self.was_in_time = self.late < timedelta(seconds=0.9)
        self.is_done = task.state == "done"


# What is lost.


def test_lost_task_is_recovered_without_a_message(hands: Hands, user_id: UserId):
    (task,) = lifecycle.enqueue([TaskSpec("agent", user_id, "assistant", "x")])
    hands.look()
    ago = datetime.now(UTC) - timedelta(seconds=1)
    row = Task.objects.filter(pk=task.pk)
    row.update(
        state="running",
        due_at=ago,
        interruptions=lifecycle.MAX_INTERRUPTIONS,
        worker="x",
    )
    hands.look(seconds=29)
    assert row.get().state == "running"
    hands.look(seconds=1)
    assert (row.get().state, row.get().error) == ("errored", lifecycle.INTERRUPTED)


def test_failed_sweep_does_not_stop_triggers(
    configure: Configure, name: str, hands: Hands, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> bool:
        raise PermissionError("not for you to see")

    configure(yaml(cron(name, "* * * * *")))
    monkeypatch.setattr(lease_recovery, "recover_leases", fail)
    hands.look()
    with pytest.raises(PermissionError):
        hands.look(seconds=60)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]
    hands.look(seconds=1)


# What fires at the start.


def test_boot_trigger_fires_once_per_start(
    configure: Configure, name: str, monkeypatch: pytest.MonkeyPatch
):
    configure(yaml(boot(name)))
    Hands().look()
    (task,) = runs(name)
    assert (task.prompt, task.agent) == ("Good morning.", "assistant")

    # A worker that is started again, and another one, are of the same start.
    Hands().look(seconds=60)
    assert len(runs(name)) == 1

    monkeypatch.setenv(server_start_id.VARIABLE, uuid.uuid4().hex)
    Hands().look(seconds=120)
    assert len(runs(name)) == 2


def test_new_boot_trigger_waits_for_the_next_start(configure: Configure, name: str):
    Hands().look()
    configure(yaml(boot(name)))
    Hands().look(seconds=1)
    assert runs(name) == []


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(server_start_id.VARIABLE)
    ServerStart.objects.filter(is_separate=True).delete()
    yield
    ServerStart.objects.filter(is_separate=True).delete()


@pytest.mark.usefixtures("apart")
def test_first_worker_is_the_start(configure: Configure, name: str):
    configure(yaml(boot(name)))
    first, second = Hands(), Hands()
    first.look()
    second.look(seconds=1)
    assert len(runs(name)) == 1

    # One stops and comes again, while the other is there.
    first.look(NOON, seconds=20)
    boot_triggers.deregister_worker()
    Hands().look(NOON, seconds=25)
    assert len(runs(name)) == 1


@pytest.mark.usefixtures("apart")
def test_worker_after_all_others_stopped_is_a_start(configure: Configure, name: str):
    configure(yaml(boot(name)))
    Hands().look()
    Hands().look(seconds=1)
    boot_triggers.deregister_worker()
    boot_triggers.deregister_worker()
    Hands().look(seconds=2)
    assert len(runs(name)) == 2


@pytest.mark.usefixtures("apart")
def test_killed_worker_counts_as_alive_until_silence_expires(
    configure: Configure, name: str
):
    configure(yaml(boot(name)))
    worker = Hands()
    worker.look()
    worker.look(seconds=20)
    Hands().look(NOON, seconds=45)
    assert len(runs(name)) == 1
    # After half a minute of silence nobody takes it for alive.
    Hands().look(NOON, seconds=80)
    assert len(runs(name)) == 2


# A database that is away.


def test_tick_during_database_outage_fires_afterwards(
    configure: Configure, name: str, hands: Hands, monkeypatch: pytest.MonkeyPatch
):
    configure(yaml(cron(name, "* * * * *")))
    hands.look(NOON)

    with monkeypatch.context() as patch:
        patch.setattr(cron_triggers, "fire_due_triggers", away)
        with pytest.raises(DatabaseDown):
            hands.look(NOON, seconds=60)
    hands.look(NOON, seconds=90)
    assert ticks(name) == ["2026-03-02T12:01:00Z"]

    with monkeypatch.context() as patch:
        patch.setattr(cron_triggers, "arm_triggers", away)
        with pytest.raises(DatabaseDown):
            hands.look(NOON, seconds=-3600)
    hands.look(NOON, seconds=-3599)
    hands.look(NOON, seconds=-3540)
    assert len(ticks(name)) == 2


def away(*_: object) -> None:
    raise OperationalError("the database is away")
