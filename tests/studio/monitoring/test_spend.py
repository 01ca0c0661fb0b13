"""Spending as a page, as data and as CSV."""

import csv
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from operator import itemgetter

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from ruamel.yaml import YAML

from access.tokens import api_tokens
from admin_base.formats import csv_export
from core.events import Usage
from studio.monitoring import spend, spend_export
from telemetry.config import TelemetryConfig
from telemetry.models import ExpensePurpose
from telemetry.statistics import cost_totals
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense
from tests.access.actors import ADA
from tests.gateway.calls import error
from tests.gateway.memory_client import ok
from tests.telemetry.sample_turns import model_call, store_turn

pytestmark = pytest.mark.database

SPEND = "/admin/spend"
NOW = datetime(2100, 7, 31, 12, tzinfo=UTC)


@pytest.fixture
def rollback(database: None) -> Iterator[None]:
    """Roll back the rows of a test."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def store_paid_turn(micro_usd: int | None = 1_250_000, **fields):
    """A turn that cost something, now."""
    at = fields.pop("started_at", datetime.now(UTC))
    call = model_call(started_at=at, cost_micro_usd=micro_usd, usage=Usage(1_000, 10))
    given = {"started_at": at, "cost_micro_usd": micro_usd, "usage": Usage(1_000, 10)}
    return store_turn(call, **{**given, **fields})


@pytest.fixture
def agent():
    """An agent's name, of this test alone."""
    return f"spender-{uuid.uuid4().hex[:8]}"


def find_line(data, key, name):
    return next(each for each in data["data"] if each[key] == name)


def table(response):
    assert response.status_code == 200
    return list(csv.DictReader(StringIO(response.text)))


def test_spend_is_grouped_by_agent_day_user_model_and_token(script, agent):
    token, _ = api_tokens.create_token(agent, "ada", by=ADA)
    turn = store_paid_turn(agent=agent, token_id=token.id)
    store_paid_turn(None, agent=agent)
    data = ok(script.get(SPEND))
    assert data["by"] == "agent"
    own_row = find_line(data, "agent", agent)
    assert (own_row["turns"], own_row["unpriced_turns"], own_row["cost_usd"]) == (
        2,
        1,
        1.25,
    )
    by_user = ok(script.get(SPEND, params={"by": "user"}))
    assert find_line(by_user, "user", str(turn.user_id))["cost_usd"] == 1.25
    by_token = ok(script.get(SPEND, params={"by": "token", "since": "1h"}))
    assert find_line(by_token, "token", str(token.id))["turns"] == 1
    by_model = ok(script.get(SPEND, params={"by": "model"}))
    assert find_line(by_model, "model", "openai/gpt-test")["calls"] >= 2
    by_day = ok(script.get(SPEND, params={"by": "day"}))
    assert by_day["data"][-1]["day"] == f"{datetime.now(UTC):%Y-%m-%d}"


@pytest.mark.parametrize("by", ["agent", "day", "model", "token", "user"])
def test_every_grouping_has_a_page(browser, by, agent):
    token, _ = api_tokens.create_token(agent, "ada", by=ADA)
    store_paid_turn(9_000_000_000, agent=agent, token_id=token.id)
    response = browser.get(f"{SPEND}?by={by}&since=7d")
    assert response.status_code == 200
    assert "Cost by day" in response.text
    assert f'"?by={by}&amp;since=7d&amp;format=csv"' in response.text
    if by in ("agent", "token"):
        assert f">{agent}</a>" in response.text


def test_page_counts_embeddings_without_a_price(browser):
    model = f"embedder-{uuid.uuid4().hex[:8]}"
    purpose = ExpensePurpose.EMBEDDING
    expense = CallExpense("embeddings", "", "o", model, 1, Usage(9, 0), None, purpose)
    costs.record_expense(expense, TelemetryConfig())
    page = browser.get(f"{SPEND}?by=model&model=o/{model}").text
    assert ">1 embedding<" in page
    assert "+ 1 embedding without a price" in page
    assert "all priced" not in page


def test_csv_export_escapes_formulas(script, agent):
    token, _ = api_tokens.create_token(f"=cmd {agent}", "ada", by=ADA)
    store_paid_turn(agent=agent, token_id=token.id)
    store_paid_turn(None, agent=agent)
    by_address = script.get(SPEND, params={"format": "csv"})
    assert by_address.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in by_address.headers["Content-Disposition"]
    [own_row] = [row for row in table(by_address) if row["agent"] == agent]
    assert own_row == {
        "agent": agent,
        "kind": "turns",
        "turns": "2",
        "unpriced_turns": "1",
        "judgements": "0",
        "unpriced_judgements": "0",
        "embeddings": "0",
        "unpriced_embeddings": "0",
        "input_tokens": "2000",
        "output_tokens": "20",
        "cost_usd": "1.250000",
    }
    by_accept = script.get(
        SPEND, params={"by": "token"}, headers={"Accept": "text/csv"}
    )
    [own_row] = [row for row in table(by_accept) if row["token"] == str(token.id)]
    assert own_row["name"] == f"'=cmd {agent}"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"by": "mood"}, "by"),
        ({"since": "soon"}, "soon"),
        ({"since": "0001-01-01T00:00+14:00"}, "is not a time"),
    ],
)
def test_invalid_query_is_refused(script, browser, query, message):
    response = script.get(SPEND, params=query)
    assert message in error(response, 400)["message"]
    assert browser.http.get(SPEND, params=query).status_code == 400


def test_viewer_may_read(viewer):
    assert viewer.get(SPEND).status_code == 200
    assert viewer.get("/admin/").status_code == 200


@pytest.mark.usefixtures("rollback")
def test_page_shows_the_most_expensive_rows(server):
    for number in range(spend.ROWS_SHOWN + 5):
        store_paid_turn(number, started_at=NOW, user_id=uuid.uuid4())
    shown = spend.page_context("user", NOW - timedelta(days=1), {}, NOW)
    assert shown["has_more"]
    assert len(shown["rows"]) == spend.ROWS_SHOWN
    costs = [row["micro_usd"] for row in shown["rows"]]
    assert costs == sorted(costs, reverse=True)
    assert shown["total"].turns == spend.ROWS_SHOWN + 5


@pytest.mark.usefixtures("rollback")
@pytest.mark.parametrize("by", ["agent", "day", "model", "token", "user"])
def test_query_count_is_independent_of_amount(server, by):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            spend.page_context(by, NOW - timedelta(days=30), {}, NOW)
        return len(queries)

    store_paid_turn(started_at=NOW, token_id=uuid.uuid4())
    few = count()
    for number in range(20):
        at = NOW - timedelta(days=number)
        store_paid_turn(started_at=at, agent=f"a-{number}", token_id=uuid.uuid4())
    assert count() == few <= 12


@pytest.mark.usefixtures("rollback")
def test_every_day_has_a_bar():
    store_paid_turn(started_at=NOW - timedelta(days=3))
    store_paid_turn(None, started_at=NOW - timedelta(days=1))
    days = cost_totals.totals_by("day", NOW - timedelta(days=6))
    chart = spend.day_chart(days, NOW - timedelta(days=6), NOW)
    [bars] = json.loads(chart.data)["datasets"]
    assert bars["data"] == [0, 0, 0, 1.25, 0, 0, 0]
    assert chart.rows == [
        ["2100-07-28", "$1.25"],
        ["2100-07-30", "unknown, 1 unpriced"],
    ]


@pytest.mark.parametrize("sign", [*csv_export.FORMULA_PREFIXES])
def test_csv_cells_escape_formula_signs(sign):
    assert csv_export.escape_cell(f"{sign}1+1") == f"'{sign}1+1"
    assert csv_export.escape_cell(-1) == -1


@pytest.fixture
def crossed(server, agent):
    """Two turns of a user by two agents, and one of another user."""
    user, other = uuid.uuid4(), uuid.uuid4()
    token, _ = api_tokens.create_token(agent, agent, by=ADA)
    store_paid_turn(1_000_000, user_id=user, agent=agent, token_id=token.pk)
    store_paid_turn(2_000_000, user_id=user, agent=f"{agent}-2")
    store_paid_turn(4_000_000, user_id=other, agent=agent)
    return str(user)


@pytest.mark.parametrize("by", ["agent", "day", "model", "user", "token"])
@pytest.mark.parametrize("extra", [{}, {"model": "openai/gpt-test"}], ids=str)
def test_filters_are_crossed(script, agent, crossed, by, extra):
    def cost(**query):
        given = {"by": by, "since": "1h", **query, **extra}
        return ok(script.get(SPEND, params=given))["total"]["cost_usd"]

    assert cost(user=crossed) == 3
    assert cost(user=crossed, agent=agent) == 1
    assert cost(agent=agent) == 5
    assert cost(token=agent) == 1
    assert cost(user=crossed, to="2026-01-01") == 0
    assert cost(token="none") == 0


def test_page_filters_the_days_of_its_chart(browser, crossed):
    page = browser.get(f"{SPEND}?by=day&user={crossed}&period=1h").text
    assert "$3.00" in page
    assert f'value="{crossed}"' in page


@pytest.mark.parametrize(
    ("name", "value"),
    [("usr", "x"), ("model", "gpt"), ("to", "somewhen")],
)
def test_invalid_filter_is_refused(script, name, value):
    refused = error(script.get(SPEND, params={name: value}), 400)
    assert refused["param"] == name


@pytest.mark.parametrize("by", ["user", "token"])
@pytest.mark.parametrize("format", ["json", "yaml", "csv"])
def test_many_rows_are_streamed_in_pages(script, agent, monkeypatch, by, format):
    """The document is the same as in one piece, and each page reads few rows."""
    for number in range(25):
        # Some cost the same, and some have no token.
        token = uuid.uuid4() if number % 5 else None
        cost = number // 3 * 1_000
        store_paid_turn(cost, agent=agent, user_id=uuid.uuid4(), token_id=token)
    store_paid_turn(None, agent=agent)
    query = {"by": by, "agent": agent, "format": format, "since": "1h"}
    whole = script.get(SPEND, params=query)
    sizes = []
    read_page = cost_totals.read_page

    def record_page(*args, **options):
        totals, after = read_page(*args, **options)
        sizes.append(len(totals))
        return totals, after

    monkeypatch.setattr(spend_export, "PAGE_SIZE", 4)
    monkeypatch.setattr(cost_totals, "read_page", record_page)
    read_users = cost_totals.read_users

    def record_users(*args, **options):
        totals, after = read_users(*args, **options)
        sizes.append(len(totals))
        return totals, after

    monkeypatch.setattr(cost_totals, "read_users", record_users)
    paged = script.get(SPEND, params=query)
    assert max(sizes) <= 4
    assert len(sizes) > 5
    assert paged.headers["Content-Type"] == whole.headers["Content-Type"]
    if format == "csv":
        assert sorted(table(paged), key=str) == sorted(table(whole), key=str)
        return
    data, expected = (
        YAML(typ="safe").load(paged.text),
        YAML(typ="safe").load(whole.text),
    )
    assert data.pop("since")[:15] == expected.pop("since")[:15]
    if by == "user":  # In the order of the ids.
        assert data["data"] == sorted(data["data"], key=itemgetter("user"))
        data["data"].sort(key=itemgetter("cost_usd", "user"))
        expected["data"].sort(key=itemgetter("cost_usd", "user"))
    assert data == expected
