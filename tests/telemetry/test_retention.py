"""Deletion of turns and expenses by age."""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config import live
from config.sections import Config
from core.events import Usage
from core.ids import UserId
from database import retention, tasks
from mcp_bridge.models import McpToken
from telemetry.config import SqliteConfig, TelemetryConfig
from telemetry.models import Expense, ModelCall, ToolCall, Turn
from telemetry.storage import costs, turn_store
from telemetry.storage.costs import CallExpense
from tests.telemetry.sample_turns import (
    NOON,
    model_call,
    nested_calls,
    store_turn,
    tool_call,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

DAY = timedelta(days=1)
LONG_AGO = datetime(1990, 1, 1, tzinfo=NOON.tzinfo)
"""Earlier than the rows of all other tests."""
NOW = LONG_AGO + 30 * DAY


@pytest.fixture
def configure() -> Iterator[Callable[..., None]]:
    """Apply telemetry settings."""

    def configure(**fields) -> None:
        telemetry = TelemetryConfig(sqlite=SqliteConfig(**fields))
        live.set_current(Config(Path("coulisse.yaml"), {"telemetry": telemetry}))

    before = live._current
    configure()
    yield configure
    live.set_current(before)


def store_expired(count: int, *, by: timedelta = DAY) -> list[uuid.UUID]:
    """Store expired turns with calls."""
    return [
        store_turn(model_call(), tool_call(), started_at=LONG_AGO - by).turn_id
        for _ in range(count)
    ]


@pytest.mark.usefixtures("configure")
def test_expired_turn_is_deleted_with_its_calls():
    turn = store_turn(*nested_calls(), started_at=LONG_AGO - DAY)
    assert retention.delete_expired(Turn, NOW) == 1
    assert turn_store.load_record(turn.turn_id) is None
    for table in (ModelCall, ToolCall):
        assert not table.objects.filter(turn=turn.turn_id).exists()


@pytest.mark.usefixtures("configure")
def test_turn_is_kept_until_the_last_moment():
    turn = store_turn(started_at=LONG_AGO)
    assert retention.delete_expired(Turn, NOW) == 0
    assert turn_store.load_record(turn.turn_id) is not None
    assert retention.delete_expired(Turn, NOW + timedelta(microseconds=1)) == 1
    assert turn_store.load_record(turn.turn_id) is None


def test_configured_retention_applies(configure):
    [turn_id] = store_expired(1)
    for days in (None, 32):
        configure(keep_days=days)
        assert retention.delete_expired(Turn, NOW) == 0
    assert Turn.objects.filter(pk=turn_id).exists()
    configure(keep_days=31)
    assert retention.delete_expired(Turn, NOW + DAY) == 1


def test_disabled_telemetry_still_deletes_old_turns(configure):
    store_expired(1)
    configure(enabled=False)
    assert retention.delete_expired(Turn, NOW) == 1


@pytest.mark.usefixtures("configure")
def test_many_turns_are_deleted_in_batches(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(retention, "BATCH_SIZE", 10)
    store_expired(25)
    with CaptureQueriesContext(connection) as queries:
        assert retention.delete_expired(Turn, NOW) == 25
    deletes = [q["sql"] for q in queries if q["sql"].startswith("DELETE")]
    assert len(deletes) == 9
    assert sum(q["sql"].startswith("BEGIN") for q in queries) == 3
    assert "deleted 25 expired turns" in caplog.text


@pytest.mark.usefixtures("configure")
def test_judge_expenses_have_the_same_retention(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    for _ in range(4):
        expense = CallExpense("quality", "a", "openai", "m", 1, Usage(1, 1), 1)
        costs.record_expense(expense, TelemetryConfig())
    ids = list(Expense.objects.order_by("-pk").values_list("pk", flat=True)[:4])
    rows = Expense.objects.filter(pk__in=ids)
    rows.update(spent_at=LONG_AGO - DAY)
    rows.filter(pk=ids[0]).update(spent_at=LONG_AGO)
    retention.delete_expired(Expense, NOW)
    assert list(rows.values_list("pk", flat=True)) == [ids[0]]
    retention.delete_expired(Expense, NOW + timedelta(microseconds=1))
    assert not rows.exists()


@pytest.mark.usefixtures("configure")
def test_long_run_stops_and_the_next_continues(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 10)
    monkeypatch.setattr(retention, "MAX_SECONDS", 0.0)
    store_expired(15)
    assert [retention.delete_expired(Turn, NOW) for _ in range(3)] == [10, 5, 0]


@pytest.mark.usefixtures("configure")
def test_parallel_runs_delete_each_turn_once(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 5)
    store_expired(40)
    barrier, counts = threading.Barrier(2), []

    def prune() -> None:
        barrier.wait()
        counts.append(retention.delete_expired(Turn, NOW))
        connection.close()

    runs = [threading.Thread(target=prune) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sum(counts) + retention.delete_expired(Turn, NOW) == 40


@pytest.mark.usefixtures("configure")
def test_turns_can_be_stored_during_deletion(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    store_expired(40)
    owner, done = UserId(uuid.uuid4()), threading.Event()
    stored: list[uuid.UUID] = []

    def speak() -> None:
        while not done.is_set():
            stored.append(store_turn(*nested_calls(), user_id=owner).turn_id)
        connection.close()

    speaker = threading.Thread(target=speak)
    speaker.start()
    assert retention.delete_expired(Turn, NOW) == 40
    done.set()
    speaker.join()
    assert Turn.objects.filter(user_id=owner).count() == len(stored)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the plan is SQLite's")
@pytest.mark.usefixtures("configure")
def test_deletion_scans_no_table():
    store_expired(1)
    with CaptureQueriesContext(connection) as queries:
        retention.delete_expired(Turn, NOW)
        retention.delete_expired(Expense, NOW)
    with connection.cursor() as cursor:
        for query in queries:
            if query["sql"].startswith(("SELECT", "DELETE")):
                cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
                plan = "\n".join(row[-1] for row in cursor.fetchall())
                assert "SCAN" not in plan, plan


def test_job_is_scheduled_hourly():
    entry = settings.CELERY_BEAT_SCHEDULE["database-retention"]
    assert entry["task"] == tasks.delete_expired.name
    assert entry["task"] in current_app.tasks
    assert entry["schedule"] == 3600


@pytest.mark.usefixtures("configure")
def test_job_uses_the_current_time():
    old = store_turn(started_at=LONG_AGO).turn_id
    new = store_turn(started_at=datetime.now(NOON.tzinfo)).turn_id
    tasks.delete_expired()
    remaining = set(Turn.objects.filter(pk__in=[old, new]).values_list("pk", flat=True))
    assert remaining == {new}


@pytest.mark.usefixtures("configure")
def test_failing_table_does_not_stop_the_others(monkeypatch, caplog):
    """Models are deleted in the order of the installed apps; tokens come first."""
    old = store_turn(started_at=LONG_AGO).turn_id

    def fail(self, now: datetime) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(type(McpToken.objects), "expired", fail)
    retention.delete_all_expired(datetime.now(NOON.tzinfo))
    assert "cannot delete expired mcp tokens" in caplog.text
    assert not Turn.objects.filter(pk=old).exists()


def test_retention_covers_all_growing_tables():
    names = {model.__name__ for model in retention.models_with_retention()}
    assert {"Expense", "McpToken", "McpUsedLink", "SmokeRun", "Turn"} <= names
    assert "UsageCounter" in names
