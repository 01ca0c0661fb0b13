"""Slow SQL statements in the log: without values, and once a minute."""

import json
import logging
from io import StringIO
from typing import Any

import pytest
from django.db import connection

from core.runtime import request_ids
from memory.models import Thread
from telemetry.log_output import formatters, slow_queries
from tests.conftest import CONFIG
from tests.gateway.calls import ask

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NAME = "a name that must not be logged"


@pytest.fixture
def log(server, configure, monkeypatch):
    """Log every statement; return a function that returns the parsed lines."""
    configure(CONFIG + "\ntelemetry: {slow_query_ms: 1}\n")
    monkeypatch.setattr(slow_queries, "_threshold_seconds", 0.0)
    slow_queries._statements.clear()
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatters.JsonFormatter())
    logging.getLogger(slow_queries.__name__).addHandler(handler)

    def lines() -> list[dict[str, Any]]:
        found = map(json.loads, written.getvalue().splitlines())
        return [line for line in found if not line["sql"].startswith("BEGIN")]

    yield lines
    logging.getLogger(slow_queries.__name__).removeHandler(handler)
    configure(CONFIG)


def find_threads(*names: str) -> None:
    list(Thread.objects.filter(name__in=names or [NAME]).order_by("name"))


def test_line_has_the_statement_without_values(log):
    token = request_ids.current.set("req_1")
    find_threads()
    request_ids.current.reset(token)
    [line] = log()
    assert NAME not in json.dumps(line)
    assert line["sql"].startswith('SELECT "memory_thread"."id"')
    assert " IN (%s) " in line["sql"]
    assert line["request_id"] == "req_1"
    assert line["level"] == "WARNING"
    assert line["count"] == 1
    assert line["milliseconds"] > 0
    assert ("rows" in line) == (connection.vendor == "postgresql")
    assert line["message"].startswith("slow query: ")


def test_statement_is_logged_once_a_minute_with_its_count(log, monkeypatch):
    for _ in range(3):
        find_threads()
    assert len(log()) == 1
    monkeypatch.setattr(slow_queries, "LOG_SECONDS", 0.0)
    find_threads()
    first, second = log()
    assert (first["count"], second["count"]) == (1, 3)
    assert second["slowest_milliseconds"] >= second["milliseconds"]
    assert "3 of them since the last line" in second["message"]


def test_lists_of_any_length_are_one_statement(log):
    find_threads("a", "b")
    find_threads("a", "b", "c")
    [line] = log()
    assert " IN (%s, …) " in line["sql"]


@pytest.mark.parametrize(
    ("sql", "result"),
    [
        ("SELECT  1\n FROM t", "SELECT 1 FROM t"),
        ("WHERE a = 'private' AND b = ''", "WHERE a = '…' AND b = '…'"),
        ("VALUES (%s, %s), (%s, %s), (%s, %s)", "VALUES (%s, …), …"),
        ("x" * 3000, "x" * 2000 + "…"),
    ],
)
def test_statement_is_normalized(sql, result):
    assert slow_queries.normalize(sql) == result


def test_failed_statement_is_logged(log):
    with pytest.raises(Exception, match="nowhere"), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")
    assert [line["sql"] for line in log()] == ["SELECT * FROM nowhere"]


def test_quick_statement_is_not_logged(log, monkeypatch):
    monkeypatch.setattr(slow_queries, "_threshold_seconds", 60.0)
    find_threads()
    assert log() == []


def test_open_connections_follow_an_edit(log, configure):
    assert slow_queries._measure in connection.execute_wrappers
    configure(CONFIG)
    assert connection.execute_wrappers == []
    find_threads()
    assert log() == []


def test_statements_of_a_turn_have_its_request_id(log, client, fake, user):
    fake.reply("ok")
    ask(client, user)
    configured = {line.get("request_id", "") for line in log()}
    assert any(name.startswith("req_") for name in configured)


def test_remembered_statements_are_bounded(log, monkeypatch):
    monkeypatch.setattr(slow_queries, "MAX_STATEMENTS", 3)
    for number in range(10):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {number}")
    assert len(slow_queries._statements) == 3
