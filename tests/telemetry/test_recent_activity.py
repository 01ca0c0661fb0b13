"""Statistics of the last hours, for the home page of the studio."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from core.events import Usage
from core.ids import UserId
from telemetry.config import TelemetryConfig
from telemetry.models import Expense, Turn
from telemetry.statistics import recent_activity
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense
from tests.telemetry.sample_turns import store_turn

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("empty_tables")]

NOW = datetime(2100, 1, 2, 12, 30, tzinfo=UTC)
SINCE = NOW - timedelta(days=1)
ADA, BOB = UserId(uuid.UUID(int=1)), UserId(uuid.UUID(int=2))


@pytest.fixture
def empty_tables(database: None) -> Iterator[None]:
    """Deletes turns of other tests, and rolls everything back afterwards."""
    with transaction.atomic():
        Turn.objects.all().delete()
        Expense.objects.all().delete()
        yield
        transaction.set_rollback(True)


def store_user_turn(minutes_ago: float = 1, **fields) -> None:
    given = {"user_id": ADA, "usage": Usage(100, 10), "cost_micro_usd": 0, **fields}
    store_turn(started_at=NOW - timedelta(minutes=minutes_ago), **given)


def summarize() -> recent_activity.ActivitySummary:
    return recent_activity.summarize_since(SINCE, NOW)


def test_summary_counts_turns_users_tokens_and_errors():
    store_user_turn()
    store_user_turn(user_id=BOB, outcome="error")
    store_user_turn(user_id=BOB, outcome="cancelled")
    store_user_turn(minutes_ago=24 * 60 + 1)
    found = summarize()
    assert (found.turns, found.users, found.errors, found.cancelled) == (3, 2, 1, 1)
    assert (found.input_tokens, found.output_tokens, found.tokens) == (300, 30, 330)
    assert found.share_of_errors() == pytest.approx(1 / 3)


def test_summary_without_turns_is_zero():
    found = summarize()
    assert (found.turns, found.users, found.share_of_errors()) == (0, 0, None)
    assert (found.p50_seconds, found.agents) == (None, [])
    assert len(found.hours) == 25
    assert {hour.turns for hour in found.hours} == {0}


def test_hours_are_separate():
    store_user_turn(minutes_ago=0.5)
    store_user_turn(minutes_ago=31)
    store_user_turn(minutes_ago=31, outcome="error")
    store_user_turn(minutes_ago=23 * 60 + 59)
    hours = summarize().hours
    assert [hour.at.hour for hour in hours] == [*range(12, 24), *range(13)]
    assert [hour.turns for hour in hours[-2:]] == [2, 1]
    assert hours[-2].errors == 1
    assert hours[0].turns == 1


def test_hour_shows_users_and_duration():
    for seconds in range(1, 21):
        store_user_turn(user_id=BOB, seconds=seconds)
    store_user_turn(seconds=0.1, outcome="error")
    store_user_turn(minutes_ago=31, seconds=3)
    store_user_turn(minutes_ago=31, seconds=9, origin="shadow", user_id=BOB)
    before, now = summarize().hours[-2:]
    assert (now.users, now.p50_seconds, now.p95_seconds) == (2, 10, 19)
    assert (before.users, before.p50_seconds, before.p95_seconds) == (1, 3, 3)
    assert (summarize().hours[0].users, summarize().hours[0].p95_seconds) == (0, None)


def test_agents_are_listed_busiest_first():
    for seconds in range(1, 21):
        store_user_turn(agent="assistant", seconds=seconds)
    store_user_turn(agent="assistant", seconds=0.1, outcome="error")
    store_user_turn(agent="writer", cost_micro_usd=None)
    assistant, writer = summarize().agents
    assert (assistant.agent, assistant.turns, assistant.errors) == ("assistant", 21, 1)
    # Only of complete replies, because errors are quick.
    assert (assistant.p50_seconds, assistant.p95_seconds) == (10, 19)
    assert (writer.turns, writer.unpriced, writer.micro_usd) == (1, 1, 0)


def test_shadow_runs_are_excluded_from_the_summary():
    store_user_turn()
    store_user_turn(origin="shadow", user_id=BOB, agent="trial", outcome="error")
    found = summarize()
    assert (found.turns, found.shadow_runs, found.users, found.errors) == (1, 1, 1, 0)
    assert [each.agent for each in found.agents] == ["assistant"]


def test_judge_costs_are_separate():
    for cost in (900, None):
        expense = CallExpense("quality", "writer", "openai", "m", 1, Usage(5, 5), cost)
        costs.record_expense(expense, TelemetryConfig())
        Expense.objects.filter(pk=Expense.objects.latest("pk").pk).update(spent_at=NOW)
    found = summarize()
    assert (found.judges_micro_usd, found.judges_unpriced) == (900, 1)
    assert found.micro_usd == 0


def test_summary_uses_a_covering_index():
    def plans() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            summarize()
        return [query["sql"] for query in queries]

    few = plans()
    for number in range(30):
        store_user_turn(minutes_ago=number, agent=f"agent-{number}")
    assert len(plans()) == len(few) == 6
    if connection.vendor == "sqlite":
        of_turns = [each for each in few if "telemetry_turn" in each]
        assert len(of_turns) == 4
        for statement in of_turns:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
                plan = " ".join(str(row[3]) for row in cursor.fetchall())
            assert "COVERING INDEX telemetry_turn_at" in plan


@pytest.mark.parametrize(
    ("values", "p50", "p95"),
    [([1], 1, 1), ([1, 2], 1, 2), ([1, 2, 3], 2, 3), (list(range(1, 101)), 50, 95)],
)
def test_percentiles_are_existing_values(values, p50, p95):
    assert recent_activity.percentile(values, 0.5) == p50
    assert recent_activity.percentile(values, 0.95) == p95
