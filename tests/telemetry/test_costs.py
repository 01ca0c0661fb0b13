"""Costs of turns and judges, and `coulisse spend`."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from access.tokens import api_tokens
from core import trace
from core.events import Usage
from core.ids import UserId
from core.trace import Call
from telemetry.config import SqliteConfig, TelemetryConfig
from telemetry.models import Expense, ExpensePurpose
from telemetry.presentation import spend_table
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import CostTotal
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense
from tests.access import actors
from tests.telemetry import sample_turns
from tests.telemetry.sample_turns import model_call, tool_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("empty_tables")]

DAY = timedelta(days=1)
THEN = datetime(2100, 1, 1, 12, tzinfo=UTC)
"""Later than the turns of all other tests."""
ADA, BOB = UserId(uuid.UUID(int=1)), UserId(uuid.UUID(int=2))

YAML = """
providers: {local: }
agents: [{name: assistant, provider: local, model: smollm2-135m}]
telemetry: {sqlite: {keep_days: %s}}
"""

PRICED = """
providers: {own: {kind: openai, base_url: "http://127.0.0.1:9/v1"}}
agents: [{name: assistant, provider: own, model: small}]
prices: {own: {small: {input: 2, output: 8, cache_read: 0.5, cache_write: 3}}}
"""


@pytest.fixture
def empty_tables(database: None) -> Iterator[None]:
    """Rolls back all rows of a test."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def priced_call(model: str, cost: int | None, prompt: int = 10, reply: int = 1):
    call = model_call(usage=Usage(prompt, reply), cost_micro_usd=cost)
    call.model = model
    return call


def store_turn(*calls: Call, **fields: Any) -> None:
    """Store a turn with the usage and the cost of its calls."""
    recorded = [*calls]
    sums = {
        "usage": trace.total_usage(recorded),
        "cost_micro_usd": trace.total_cost(recorded),
    }
    for call in trace.iter_model_calls(recorded):
        call.started_at = fields["started_at"]
    sample_turns.store_turn(*calls, **sums, **fields)


def store_three_turns() -> None:
    """Store a turn that cost 1,300, one of partly unknown cost, and a failed one."""
    inner = tool_call("ask_writer", priced_call("large", 1_000, 50, 5), kind="subagent")
    store_turn(
        priced_call("small", 300),
        inner,
        started_at=THEN,
        user_id=ADA,
        agent="assistant",
    )
    doubtful = priced_call("small", 7), priced_call("secret", None)
    store_turn(*doubtful, started_at=THEN + DAY, user_id=BOB, agent="writer")
    failed = model_call(usage=None, cost_micro_usd=None, error="503")
    store_turn(
        failed, started_at=THEN + DAY, user_id=BOB, agent="writer", outcome="error"
    )


def test_turn_counts_for_the_called_agent():
    store_three_turns()
    assert cost_totals.totals_by("agent", THEN) == [
        CostTotal("assistant", 1, 0, 60, 6, 1_300),
        CostTotal("writer", 2, 1, 20, 2, 7),
    ]


def test_turn_counts_for_its_user_and_day():
    store_three_turns()
    assert cost_totals.totals_by("user", THEN) == [
        CostTotal(str(ADA), 1, 0, 60, 6, 1_300),
        CostTotal(str(BOB), 2, 1, 20, 2, 7),
    ]
    assert [(s.key, s.micro_usd) for s in cost_totals.totals_by("day", THEN)] == [
        ("2100-01-01", 1_300),
        ("2100-01-02", 7),
    ]


def test_call_counts_for_its_model():
    store_three_turns()
    assert cost_totals.totals_by("model", THEN) == [
        CostTotal("openai/large", 1, 0, 50, 5, 1_000),
        CostTotal("openai/small", 2, 0, 20, 2, 307),
        CostTotal("openai/gpt-test", 1, 0, 0, 0, 0),
        CostTotal("openai/secret", 1, 1, 10, 1, 0),
    ]
    [provider] = cost_totals.totals_by("provider", THEN)
    assert provider == CostTotal("openai", 5, 1, 80, 8, 1_307)


def test_turns_with_and_without_a_token_are_separate():
    token = uuid.uuid4()
    store_turn(priced_call("small", 5), started_at=THEN, token_id=token)
    store_turn(priced_call("small", 9), started_at=THEN)
    found = [(s.key, s.micro_usd) for s in cost_totals.totals_by("token", THEN)]
    assert found == [(None, 9), (str(token), 5)]


def total_since(since):
    return cost_totals.sum_totals(cost_totals.totals_by("agent", since))


def test_total_is_the_sum():
    store_three_turns()
    assert total_since(THEN) == CostTotal(None, 3, 1, 80, 8, 1_307)
    assert total_since(THEN + DAY) == CostTotal(None, 2, 1, 20, 2, 7)
    assert total_since(THEN + 2 * DAY) == CostTotal(None, 0, 0, 0, 0, 0)
    assert cost_totals.totals_by("agent", THEN + 2 * DAY) == []


def test_days_are_in_utc():
    late = datetime(2100, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC)
    store_turn(priced_call("small", 5), started_at=late)
    assert [s.key for s in cost_totals.totals_by("day", THEN)] == ["2100-01-01"]


def test_sums_beyond_float_precision_are_exact():
    for _ in range(3):
        store_turn(priced_call("small", 2**53 + 1), started_at=THEN)
    assert total_since(THEN).micro_usd == 3 * (2**53 + 1)


def store_expense(
    cost: int | None,
    prompt: int = 100,
    model: str = "small",
    purpose: ExpensePurpose = ExpensePurpose.JUDGE,
) -> None:
    """Store an expense on the second day."""
    usage = Usage(prompt, 10)
    result = CallExpense("quality", "writer", "openai", model, 1, usage, cost, purpose)
    costs.record_expense(result, TelemetryConfig())
    at = THEN + DAY
    Expense.objects.filter(pk=Expense.objects.latest("pk").pk).update(spent_at=at)


def test_judges_are_counted_apart_from_turns():
    store_three_turns()
    store_expense(900)
    store_expense(None, 200)
    judges = CostTotal("writer", 0, 0, 300, 20, 900, 2, 1)
    assert cost_totals.totals_by("agent", THEN) == [
        CostTotal("assistant", 1, 0, 60, 6, 1_300),
        judges,
        CostTotal("writer", 2, 1, 20, 2, 7),
    ]
    assert cost_totals.totals_by("model", THEN)[1] == replace(
        judges, key="openai/small"
    )
    assert cost_totals.totals_by("provider", THEN)[1] == replace(judges, key="openai")
    assert cost_totals.totals_by("day", THEN)[2] == replace(judges, key="2100-01-02")
    # The operator pays for judges, not the user.
    for what in ("user", "token"):
        assert replace(judges, key=None) in cost_totals.totals_by(what, THEN)
    assert total_since(THEN) == CostTotal(None, 3, 1, 380, 28, 2_207, 2, 1)
    assert total_since(THEN + 2 * DAY) == CostTotal(None, 0, 0, 0, 0, 0)


def test_embeddings_are_counted_apart_from_turns():
    store_three_turns()
    store_expense(900)
    store_expense(None, 50, purpose=ExpensePurpose.EMBEDDING)
    embedded = CostTotal("openai/small", 0, 0, 50, 10, 0, embeddings=1)
    embedded = replace(embedded, unpriced_embeddings=1)
    assert embedded in cost_totals.totals_by("model", THEN)
    by_day = cost_totals.totals_by("day", THEN)
    assert replace(embedded, key="2100-01-02") in by_day
    assert [each.kind for each in by_day] == ["turns", "turns", "judges", "embeddings"]
    [*_, line] = spend_table.table_lines(
        "model", cost_totals.totals_by("model", THEN), {}
    )
    assert "1 embedding" in line


def test_saving_of_prompt_caching_is_shown_by_model(file):
    usage = Usage(10_000, 10, cache_read_tokens=8_000, cache_write_tokens=1_000)
    call = model_call(usage=usage, cost_micro_usd=5)
    call.provider, call.model = "own", "small"
    store_turn(call, started_at=THEN)
    file.write_text(PRICED)
    out, _ = run(file, "--by", "model")
    # 8,000 * (2 - 0.5) - 1,000 * (3 - 2)
    assert "caching saved $0.011000" in out[1]
    assert "caching saved $0.011000" in out[-1]
    total = json.loads("\n".join(run(file, "--by", "model", "--json")[0]))["total"]
    assert (total["cache_read_tokens"], total["cache_saved_usd"]) == (8_000, 0.011)
    by_agent = json.loads("\n".join(run(file, "--json")[0]))["total"]
    assert "cache_read_tokens" not in by_agent


def test_failed_or_disabled_judge_expense_is_not_stored():
    before = Expense.objects.count()
    result = CallExpense("quality", "writer", "openai", "m", 0, Usage(), 0)
    costs.record_expense(result, TelemetryConfig())
    off = TelemetryConfig(sqlite=SqliteConfig(enabled=False))
    costs.record_expense(replace(result, calls=1), off)
    assert Expense.objects.count() == before


@pytest.mark.parametrize("what", cost_totals.DIMENSIONS)
def test_totals_use_covering_indexes(what):
    store_three_turns()
    store_expense(900)
    with CaptureQueriesContext(connection) as queries:
        cost_totals.totals_by(what, THEN)
    # One finds the finished hours. Days need four more, for the first and the last.
    assert len(queries) == (7 if what == "day" else 3)
    if connection.vendor == "sqlite":
        sums = [query["sql"] for query in queries if "sum(" in query["sql"].lower()]
        result, judges = map(plan, sums)
        assert "COVERING INDEX telemetry_turn_at" in result
        assert "COVERING INDEX telemetry_expense_at" in judges


def test_query_count_is_independent_of_turns():
    store_three_turns()
    with CaptureQueriesContext(connection) as few:
        cost_totals.totals_by("day", THEN)
    for number in range(20):
        store_turn(priced_call("small", 1), started_at=THEN + number * DAY)
    with CaptureQueriesContext(connection) as many:
        cost_totals.totals_by("day", THEN)
    assert len(many) == len(few)


def test_every_day_of_years_is_listed():
    store_turn(priced_call("small", 5), started_at=THEN)
    store_turn(priced_call("small", 6), started_at=THEN + 700 * DAY)
    result = [(s.key, s.micro_usd) for s in cost_totals.totals_by("day", THEN)]
    assert result == [("2100-01-01", 5), ("2101-12-02", 6)]


def plan(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return " ".join(str(row) for row in cursor.fetchall())


# coulisse spend


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML % "null")
    return path


def run(file: Path, *arguments: str) -> tuple[list[str], list[str]]:
    out, err = StringIO(), StringIO()
    given = ["spend", "-c", str(file), "--since", "2100-01-01", *arguments]
    call_command(*given, stdout=out, stderr=err, no_color=True)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def test_unknown_costs_are_shown_separately(file):
    store_three_turns()
    store_turn(priced_call("secret", None), started_at=THEN, agent="spy")
    assert run(file) == (
        [
            "agent      turns  input  output       cost",
            "assistant      1     60       6  $0.001300",
            "writer         2     20       2  $0.000007  cost unknown for 1 turn",
            "spy            1     10       1    unknown  cost unknown for 1 turn",
            "all            4     90       9  $0.001307  cost unknown for 2 turns",
        ],
        [],
    )


def test_judges_have_their_own_rows(file):
    store_three_turns()
    store_expense(900)
    store_expense(None, 200)
    store_expense(None, model="secret")
    assert run(file, "--by", "model")[0] == [
        "model                   calls  input  output       cost",
        "openai/large                1     50       5  $0.001000",
        "openai/small (judges)       -    300      20  $0.000900  cost unknown for "
        "1 judgement",
        "openai/small                2     20       2  $0.000307",
        "openai/gpt-test             1      0       0  $0.000000",
        "openai/secret               1     10       1    unknown  cost unknown for "
        "1 call",
        "openai/secret (judges)      -    100      10    unknown  cost unknown for "
        "1 judgement",
        "all                         5    480      38  $0.002207  cost unknown for "
        "1 call and 2 judgements",
    ]
    result = json.loads("\n".join(run(file, "--json")[0]))
    assert [(row["agent"], row["kind"]) for row in result["data"]] == [
        ("assistant", "turns"),
        ("writer", "judges"),
        ("writer", "turns"),
    ]
    assert result["total"]["judgements"] == 3


def test_tokens_are_listed_by_label(file):
    row, _ = api_tokens.create_token("laptop", "ada", by=actors.ADA)
    store_turn(priced_call("small", 5), started_at=THEN, token_id=row.id)
    store_turn(priced_call("small", 1), started_at=THEN)
    (_, first, second, _), _ = run(file, "--by", "token")
    assert first.startswith(f"{row.id} laptop ")
    assert second.startswith("- ")


def test_table_is_available_as_json(file):
    store_three_turns()
    out, _ = run(file, "--by", "day", "--json")
    assert json.loads("\n".join(out)) == {
        "object": "spending",
        "by": "day",
        "since": "2100-01-01T00:00:00Z",
        "data": [
            {
                "day": "2100-01-01",
                "kind": "turns",
                "turns": 1,
                "unpriced_turns": 0,
                "input_tokens": 60,
                "output_tokens": 6,
                "cost_usd": 0.0013,
                "judgements": 0,
                "unpriced_judgements": 0,
                "embeddings": 0,
                "unpriced_embeddings": 0,
            },
            {
                "day": "2100-01-02",
                "kind": "turns",
                "turns": 2,
                "unpriced_turns": 1,
                "input_tokens": 20,
                "output_tokens": 2,
                "cost_usd": 0.000007,
                "judgements": 0,
                "unpriced_judgements": 0,
                "embeddings": 0,
                "unpriced_embeddings": 0,
            },
        ],
        "total": {
            "turns": 3,
            "unpriced_turns": 1,
            "input_tokens": 80,
            "output_tokens": 8,
            "cost_usd": 0.001307,
            "judgements": 0,
            "unpriced_judgements": 0,
            "embeddings": 0,
            "unpriced_embeddings": 0,
        },
        "notes": [],
    }


def test_invalid_time_is_refused(file):
    with pytest.raises(CommandError, match="'soon' is not a time"):
        run(file, "--since", "soon")


def test_note_names_the_oldest_record(file):
    store_turn(priced_call("small", 5), started_at=datetime(1970, 1, 2, tzinfo=UTC))
    file.write_text(YAML % 30)
    _, notes = run(file, "--since", "1970-01-01")
    assert notes == [
        "turns are stored for 30 days (telemetry.sqlite.keep_days): the oldest one "
        "began 1970-01-02 00:00 UTC"
    ]


def test_note_says_that_nothing_is_recorded():
    off = TelemetryConfig(sqlite=SqliteConfig(enabled=False, keep_days=7))
    assert [*spend_table.notes(THEN - 8 * DAY, None, off, THEN)] == [
        "turns are not recorded: telemetry.sqlite.enabled is false",
        "turns are stored for 7 days (telemetry.sqlite.keep_days): no turn is recorded",
    ]
    assert [*spend_table.notes(THEN - 7 * DAY, None, TelemetryConfig(), THEN)] == []


def test_first_day_counts_only_turns_since_the_start():
    store_turn(priced_call("small", 5), started_at=THEN)
    store_turn(priced_call("small", 6), started_at=THEN + DAY / 8)
    [day] = cost_totals.totals_by("day", THEN + DAY / 8)
    assert (day.key, day.turns, day.micro_usd) == ("2100-01-01", 1, 6)
