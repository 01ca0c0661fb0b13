"""Lists of tokens with their spending."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.limits import time_windows
from access.models import UsageCounter
from access.tokens import api_tokens, formatting, token_queries
from access.tokens.token_queries import TokenUsage
from access.users import identity
from tests.access.actors import ADA

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def principal() -> str:
    return f"alice-{uuid.uuid4()}"


def create_token(principal, label="laptop", at=NOW, **terms):
    return api_tokens.create_token(label, principal, now=at, by=ADA, **terms)[0]


def store_usage(row, *, length=time_windows.EVER, at=NOW, **figures):
    window = time_windows.window_at(length, int(at.timestamp()))
    UsageCounter.objects.create(
        subject=f"token:{row.id.hex}",
        window=window.length,
        start=window.start,
        last_at=int(at.timestamp()),
        **figures,
    )


def listed(principal, now=NOW, **terms):
    return [
        each
        for each in token_queries.iterate_tokens(now=now, **terms)
        if each.row.principal == principal
    ]


def test_unused_token_has_no_spend(principal):
    row = create_token(principal)
    assert listed(principal) == [TokenUsage(row, "active")]


def test_spend_covers_this_month_and_all_time(principal):
    row = create_token(principal)
    store_usage(row, micro_usd=3_100_000, unpriced=3, at=NOW - HOUR)
    store_usage(row, length=time_windows.CALENDAR_MONTH, micro_usd=40_000)
    last_month = NOW - timedelta(days=30)
    store_usage(row, length=time_windows.CALENDAR_MONTH, micro_usd=7, at=last_month)
    assert listed(principal) == [
        TokenUsage(row, "active", 3_100_000, 40_000, 3, NOW - HOUR)
    ]
    assert listed(principal, now=last_month)[0].month_micro_usd == 7


def test_newest_tokens_come_first_without_ended_ones(principal):
    revoked = create_token(principal, at=NOW - 3 * HOUR)
    api_tokens.revoke(str(revoked.id), now=NOW, by=ADA)
    expired = create_token(principal, at=NOW - 2 * HOUR, expires_at=NOW)
    old = create_token(principal, at=NOW - HOUR, expires_at=NOW + HOUR)
    new = create_token(principal)
    assert [each.row for each in listed(principal)] == [new, old]
    every = listed(principal, include_inactive=True)
    assert [each.row.id for each in every] == [
        each.id for each in (new, old, expired, revoked)
    ]
    assert [each.state for each in every] == ["active", "active", "expired", "revoked"]


def test_pages_are_contiguous_for_equal_times(principal, monkeypatch):
    at = NOW + timedelta(days=3650 + uuid.uuid4().int % 10_000)
    rows = [create_token(principal, at=at).id for _ in range(5)]
    monkeypatch.setattr(token_queries, "PAGE_SIZE", 2)
    found = [each.row.id for each in token_queries.iterate_tokens(now=NOW)]
    assert len(set(found)) == len(found)
    # PostgreSQL and SQLite both order ids by their digits.
    assert [each for each in found if each in rows] == sorted(rows, reverse=True)


def test_page_takes_two_queries(principal):
    for number in range(5):
        store_usage(create_token(principal, label=str(number)), micro_usd=number)
    with CaptureQueriesContext(connection) as queries:
        token_queries.page_tokens(now=NOW)
    assert len(queries) == 2


def test_tokens_are_found_by_user_name_and_id(principal):
    user_id = identity.derive_user_id(principal)
    by_name, by_id = create_token(principal), create_token(str(user_id).upper())
    create_token(f"{principal}x")
    assert set(token_queries.user_tokens(user_id)) == {by_name, by_id}
    assert token_queries.count_active(user_id, now=NOW) == 2
    api_tokens.revoke(str(by_id.id), now=NOW, by=ADA)
    assert token_queries.count_active(user_id, now=NOW) == 1


# Formatted lines.


def test_token_line_shows_all_terms(principal):
    row = create_token(
        principal,
        "ci",
        budget="monthly",
        limit_micro_usd=20_000_000,
        expires_at=NOW + HOUR,
        agents=["writer", "coder"],
    )
    result = TokenUsage(row, "active", 3_100_000, 40_000, 1, NOW)
    assert re.split(" {2,}", formatting.token_line(result)) == [
        row.id.hex[:8],
        "active",
        "ci",
        "$20.00 / month",
        "spent $0.04 this month, $3.10 total + 1 turn of unknown price",
        f"[{principal}]",
        "last used 2026-11-21 12:00",
        "expires 2026-11-21 13:00",
        "agents: coder, writer",
    ]


def test_ended_token_line_shows_when(principal):
    row = create_token(
        principal, budget="total", limit_micro_usd=500, expires_at=NOW + HOUR
    )
    line = formatting.token_line(TokenUsage(row, "expired", 400, 400, 3))
    assert "  $0.0005 total  " in line
    assert "  spent $0.0004 + 3 turns of unknown price  " in line
    assert line.endswith("never used  expired 2026-11-21 13:00")
    row, _ = api_tokens.revoke(str(row.id), now=NOW, by=ADA)
    assert "revoked 2026-11-21 12:00" in formatting.token_line(
        TokenUsage(row, "revoked")
    )
