"""The number of database queries of a turn, without and with limits."""

import re

import httpx2
import pytest
from django.db import connection

from access.tokens import api_tokens
from access.users.request_user import USER_HEADER
from database import database_executor
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import bearer, body, post

pytestmark = pytest.mark.database

BOUND = (
    CONFIG
    + """
auth: {proxy: {tokens: {}}}
prices: {openai: {gpt-test: {input: 1, output: 2}}}
limits:
  - {per: principal, requests_per_minute: 1000, tokens_per_day: 1000000}
  - {per: principal, usd_per_day: 100, concurrent: 100}
  - {per: token, requests_per_hour: 1000, usd_per_month: 100}
  - {per: agent, name: assistant, tokens_per_hour: 10000000}
"""
)
EITHER = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture
def trips(monkeypatch):
    """The calls of the database executor: the function and its statements."""
    seen = []
    call = database_executor._call

    def watch(function, args, kwargs):
        statements = []

        def note(execute, sql, parameters, many, context):
            # PostgreSQL's driver does not report the start of a transaction.
            if not sql.startswith("BEGIN"):
                statements.append(re.match(r"\s*(INSERT INTO \w+|\w+)", sql)[1])
            return execute(sql, parameters, many, context)

        seen.append((function.__name__, statements))
        with connection.execute_wrapper(note):
            return call(function, args, kwargs)

    monkeypatch.setattr(database_executor, "_call", watch)
    return seen


KEPT = [
    "INSERT INTO memory_thread",
    "INSERT INTO memory_message",
    "INSERT INTO telemetry_turn",
    "INSERT INTO telemetry_modelcall",
    "INSERT INTO access_usagecounter",
]


@EITHER
def test_plain_turn_uses_two_transactions(server, user, trips, stream):
    for _ in range(3):
        trips.clear()
        assert post(server, body(user, stream=stream)).status_code == 200
        assert trips == [("load_context", ["SELECT"]), ("store_turn", KEPT)]


@EITHER
def test_limited_turn_adds_one_transaction(running, configure, user, trips, stream):
    configure(BOUND)
    terms = {"budget": "monthly", "limit_micro_usd": 10**9}
    _, secret = api_tokens.create_token("ci", user, by=ADA, **terms)
    found = [("verify", ["SELECT"])]
    for known in (found, [], []):
        trips.clear()
        answer = post(running, body(user, stream=stream), headers=bearer(secret))
        assert answer.status_code == 200
        assert trips == [
            *known,
            ("load_context_and_reserve", ["SELECT", *reserving(first=bool(known))]),
            ("store_turn", [*KEPT[:-1], *settling()]),
        ]


PAGE = ("page_facts", ["SELECT"])


def reserving(*, first: bool) -> list[str]:
    """Return the statements that reserve, also for the first turn of a window."""
    if connection.vendor == "sqlite":
        return [
            "INSERT INTO access_usagecounter",
            "INSERT INTO access_usagereservation",
        ]
    looked_up = ["WITH", "SELECT", "SELECT", "INSERT"]
    return [*looked_up, "WITH"] if first else ["WITH"]


def settling() -> list[str]:
    if connection.vendor == "sqlite":
        return ["DELETE", "INSERT INTO access_usagecounter"]
    return ["UPDATE", "WITH"]


def list_memories(url, user="", headers=None):
    named = {USER_HEADER: user} if user else {}
    answer = httpx2.get(
        f"{url}/v1/memories",
        headers={**named, **(headers or {})},
        timeout=60,
        verify=False,
    )
    assert answer.status_code == 200


def test_unlimited_endpoint_runs_one_query(server, user, trips):
    list_memories(server, user)
    assert trips == [PAGE]


def test_token_without_limits_adds_only_its_lookup(running, configure, user, trips):
    configure(CONFIG + "\nauth: {proxy: {tokens: {}}}\n")
    _, secret = api_tokens.create_token("ci", user, by=ADA)
    trips.clear()
    list_memories(running, headers=bearer(secret))
    assert trips == [("verify", ["SELECT"]), PAGE]


def test_limited_endpoint_reserves_and_settles_once_each(
    running, configure, user, trips
):
    configure(BOUND)
    terms = {"budget": "monthly", "limit_micro_usd": 10**9}
    _, secret = api_tokens.create_token("ci", user, by=ADA, **terms)
    trips.clear()
    list_memories(running, headers=bearer(secret))
    reserved, settled = reserving(first=True), settling()
    assert trips == [
        ("verify", ["SELECT"]),
        ("reserve_usage", reserved),
        PAGE,
        ("settle_usage", settled),
    ]


def test_agent_limits_add_no_endpoint_query(running, configure, user, trips):
    configure(CONFIG + "\nlimits: [{per: agent, requests_per_hour: 5}]\n")
    list_memories(running, user)
    assert trips == [PAGE]
