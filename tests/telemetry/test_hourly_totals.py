"""Hourly totals: sums that use them are equal to sums of the rows."""

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from config import live
from config.sections import Config
from core.events import Usage
from core.ids import UserId
from database import retention
from memory.user_data import erasure
from telemetry import tasks
from telemetry.config import TelemetryConfig
from telemetry.models import Expense, ExpensePurpose, HourlyTotal, RolledHour, Turn
from telemetry.models.hourly_totals import HOUR, floor_hour
from telemetry.statistics import (
    cost_totals,
    hourly_rollup,
    period_sums,
    recent_activity,
)
from telemetry.statistics.cost_totals import ALL, DIMENSIONS, SpendFilter
from telemetry.storage import turn_store
from tests.telemetry.sample_turns import make_record, model_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("empty_tables")]

NOW = datetime(2100, 1, 5, 12, 34, 56, 789, tzinfo=UTC)
START = NOW - timedelta(days=4)
USERS = [UserId(uuid.UUID(int=number)) for number in range(1, 6)]
TOKENS = [None, uuid.UUID(int=21), uuid.UUID(int=22)]
MODELS = ["small", "large"]
FILTERS = {
    "all": ALL,
    "agent": SpendFilter(agent="b"),
    "model": SpendFilter(model="openai/small"),
    "token": SpendFilter(token_ids=[TOKENS[1]]),
    "user": SpendFilter(user_id=USERS[0]),
    "until": SpendFilter(until=NOW - timedelta(days=1, minutes=17)),
    "agent of a token": SpendFilter(agent="a", token_ids=[TOKENS[2]]),
    "model of an agent": SpendFilter(agent="a", model="openai/large"),
}


@pytest.fixture
def empty_tables(database: None) -> Iterator[None]:
    with transaction.atomic():
        for model in (Turn, Expense, RolledHour):
            model.objects.all().delete()
        yield
        transaction.set_rollback(True)


@pytest.fixture
def keep_days() -> Iterator[None]:
    """Apply the default ages."""
    before = live._current
    config = Config(Path("coulisse.yaml"), {"telemetry": TelemetryConfig()})
    live.set_current(config)
    yield
    live.set_current(before)


def store(rng: random.Random, at: datetime, **fields: Any) -> None:
    """Store a turn at a time, the rest of it by chance."""
    calls = []
    for _ in range(rng.randrange(4)):
        cost = rng.choice([None, 0, rng.randrange(2**40)])
        usage = rng.choice([None, Usage(*(rng.randrange(999) for _ in range(5)))])
        call = model_call(usage=usage, cost_micro_usd=cost)
        call.model = rng.choice(MODELS)
        # Calls of a turn may be in a later hour than the turn.
        call.started_at = at + timedelta(minutes=rng.randrange(90))
        calls.append(call)
    costs = [call.cost_micro_usd for call in calls]
    given = {
        "user_id": rng.choice(USERS),
        "token_id": rng.choice(TOKENS),
        "agent": rng.choice("abc"),
        "outcome": rng.choice(["ok", "ok", "error", "cancelled"]),
        "origin": rng.choice(["chat", "chat", "task", "shadow"]),
        "seconds": rng.random() * 9,
        "usage": Usage(rng.randrange(999), rng.randrange(99)),
        "cost_micro_usd": None if None in costs else sum(costs),
        **fields,
    }
    turn_store.insert(make_record(*calls, started_at=at, **given), TelemetryConfig())


def store_many(rng: random.Random, count: int = 150) -> None:
    for _ in range(count):
        at = START + (NOW - START) * rng.random()
        # Some exactly at the ends of hours.
        edge = rng.choice(
            [at, at, floor_hour(at), floor_hour(at) - datetime.resolution]
        )
        store(rng, edge)
        Expense.objects.create(
            purpose=rng.choice(list(ExpensePurpose)),
            name="n",
            agent=rng.choice("ab"),
            provider="openai",
            model=rng.choice(MODELS),
            spent_at=edge,
            model_calls=1,
            cost_micro_usd=rng.choice([None, rng.randrange(9_999)]),
            input_tokens=rng.randrange(99),
            output_tokens=rng.randrange(99),
            cache_read_tokens=0,
            cache_write_tokens=0,
            reasoning_tokens=0,
        )


def read_all() -> dict[str, Any]:
    """Return all sums that may use hourly totals, of periods with odd ends."""
    sums: dict[str, Any] = {}
    for since in (START - HOUR, START + timedelta(hours=7, minutes=12)):
        for name, chosen in FILTERS.items():
            for by in DIMENSIONS:
                sums[f"{by} {name} {since}"] = cost_totals.totals_by(by, since, chosen)
    for hours in (1, 24, 30):
        day = recent_activity.summarize_since(NOW - hours * HOUR, NOW)
        sums[f"activity {hours}"] = day.model_dump()
    return sums


def test_sums_with_totals_are_equal_to_sums_of_rows(monkeypatch):
    rng = random.Random(7)
    store_many(rng)
    expected = read_all()
    assert hourly_rollup.roll_up(NOW) > 40
    assert HourlyTotal.objects.exists()
    assert read_all() == expected
    # Again, and with many gaps.
    assert hourly_rollup.roll_up(NOW) == 0
    for hour in rng.sample(list(RolledHour.objects.all()), 15):
        hour.delete()
    assert read_all() == expected
    monkeypatch.setattr(period_sums, "MAX_GAPS", 3)
    assert read_all() == expected


def test_finished_hours_are_read_from_totals_only():
    store_many(random.Random(1), 20)
    hourly_rollup.roll_up(NOW)
    before = cost_totals.totals_by("agent", START - HOUR)
    last = floor_hour(NOW) - HOUR
    Turn.objects.filter(started_at__lt=last).delete()
    Expense.objects.filter(spent_at__lt=last).delete()
    assert cost_totals.totals_by("agent", START - HOUR) == before


def test_current_and_last_hour_are_not_totalled():
    rng = random.Random(2)
    for hours in (0, 1, 2):
        store(rng, floor_hour(NOW) - hours * HOUR)
    hourly_rollup.roll_up(NOW)
    hours = list(RolledHour.objects.values_list("pk", flat=True))
    assert hours == [floor_hour(NOW) - 2 * HOUR]


def test_late_turn_and_changed_cost_are_totalled_again():
    rng = random.Random(3)
    at = NOW - 5 * HOUR
    store(rng, at, cost_micro_usd=5)
    hourly_rollup.roll_up(NOW)
    store(rng, at, cost_micro_usd=6)
    assert hourly_rollup.roll_up(NOW) == 1
    expected = cost_totals.totals_by("agent", START)
    RolledHour.objects.all().delete()
    assert cost_totals.totals_by("agent", START) == expected
    hourly_rollup.roll_up(NOW)
    Turn.objects.update(known_cost_micro_usd=77)
    assert hourly_rollup.roll_up(NOW) == 1


def test_gap_without_beat_is_caught_up_within_a_time_limit(monkeypatch):
    rng = random.Random(4)
    for days in (0.5, 30, 400):
        store(rng, NOW - timedelta(days=days))
    monkeypatch.setattr(hourly_rollup, "MAX_SECONDS", 0)
    assert [hourly_rollup.roll_up(NOW) for _ in range(4)] == [1, 1, 1, 0]


def test_erased_user_is_in_no_sum():
    rng = random.Random(5)
    store_many(rng, 60)
    hourly_rollup.roll_up(NOW)
    erasure.erase_user(USERS[0])
    assert not Turn.objects.filter(user_id=USERS[0]).exists()
    after = read_all()
    RolledHour.objects.all().delete()
    assert read_all() == after
    hourly_rollup.roll_up(NOW)
    assert read_all() == after


@pytest.mark.usefixtures("keep_days")
def test_totals_outlive_their_turns():
    rng = random.Random(6)
    old = NOW - timedelta(days=40)
    for minutes in range(0, 60, 10):
        store(rng, floor_hour(old) + timedelta(minutes=minutes), user_id=USERS[0])
    store(rng, NOW - 3 * HOUR, user_id=USERS[0])
    until = SpendFilter(until=old + HOUR)
    before = cost_totals.totals_by("agent", old - HOUR, until)
    # No roll-up has run: retention makes the totals first.
    assert retention.delete_expired(Turn, NOW) == 6
    assert cost_totals.totals_by("agent", old - HOUR, until) == before
    # They have no user, so an erasure leaves them.
    erasure.erase_user(USERS[0])
    hourly_rollup.roll_up(NOW)
    assert not Turn.objects.exists()
    assert cost_totals.totals_by("agent", old - HOUR) == before
    assert RolledHour.objects.get(is_sealed=True).pk == floor_hour(old)


@pytest.mark.usefixtures("keep_days")
def test_turns_stay_if_their_totals_fail(monkeypatch):
    store(random.Random(8), NOW - timedelta(days=40))

    def fail(hour: datetime) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(hourly_rollup, "roll_hour", fail)
    retention.delete_all_expired(NOW)
    assert Turn.objects.exists()


@pytest.mark.usefixtures("keep_days")
def test_totals_expire():
    store(random.Random(9), NOW - timedelta(days=1_200))
    hourly_rollup.roll_up(NOW)
    Turn.objects.all().delete()
    assert retention.delete_expired(RolledHour, NOW) == 1
    assert not HourlyTotal.objects.exists()


def test_number_of_queries_is_independent_of_turns():
    rng = random.Random(10)

    def count() -> int:
        hourly_rollup.roll_up(NOW)
        with CaptureQueriesContext(connection) as queries:
            cost_totals.totals_by("agent", START)
        return len(queries)

    store_many(rng, 5)
    few = count()
    store_many(rng, 40)
    assert count() == few == 3


def test_job_is_scheduled():
    entry = settings.CELERY_BEAT_SCHEDULE["telemetry-roll-up"]
    assert entry["task"] == tasks.roll_up.name
    assert entry["task"] in current_app.tasks
