"""Lists of tokens with their spending."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access import user_lookup
from access.limits import time_windows
from access.models import ApiToken, UsageCounter, tokens
from access.tokens import api_tokens, formatting
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
    return [each for each in listed_all(now, **terms) if each.principal == principal]


def listed_all(now=NOW, *, include_inactive=False):
    rows = ApiToken.objects.all() if include_inactive else ApiToken.objects.active(now)
    return list(rows.with_usage(now))


def test_unused_token_has_no_spend(principal):
    row = create_token(principal)
    assert [usage_of(each) for each in listed(principal)] == [
        (row.id, "active", 0, 0, 0, None)
    ]


def test_spend_covers_this_month_and_all_time(principal):
    row = create_token(principal)
    store_usage(row, micro_usd=3_100_000, unpriced=3, at=NOW - HOUR)
    store_usage(row, length=time_windows.CALENDAR_MONTH, micro_usd=40_000)
    last_month = NOW - timedelta(days=30)
    store_usage(row, length=time_windows.CALENDAR_MONTH, micro_usd=7, at=last_month)
    assert [usage_of(each) for each in listed(principal)] == [
        (row.id, "active", 3_100_000, 40_000, 3, NOW - HOUR)
    ]
    assert listed(principal, now=last_month)[0].spent_this_month_micro_usd == 7


def usage_of(row):
    return (
        row.id,
        row.state,
        row.spent_micro_usd,
        row.spent_this_month_micro_usd,
        row.unpriced_turns,
        row.last_used_at,
    )


def test_newest_tokens_come_first_without_ended_ones(principal):
    revoked = create_token(principal, at=NOW - 3 * HOUR)
    api_tokens.revoke(str(revoked.id), now=NOW, by=ADA)
    expired = create_token(principal, at=NOW - 2 * HOUR, expires_at=NOW)
    old = create_token(principal, at=NOW - HOUR, expires_at=NOW + HOUR)
    new = create_token(principal)
    assert listed(principal) == [new, old]
    every = listed(principal, include_inactive=True)
    assert [each.id for each in every] == [
        each.id for each in (new, old, expired, revoked)
    ]
    assert [each.state for each in every] == ["active", "active", "expired", "revoked"]


def test_pages_are_contiguous_for_equal_times(principal, monkeypatch):
    at = NOW + timedelta(days=3650 + uuid.uuid4().int % 10_000)
    rows = [create_token(principal, at=at).id for _ in range(5)]
    monkeypatch.setattr(tokens, "PAGE_SIZE", 2)
    found = [each.id for each in listed_all()]
    assert len(set(found)) == len(found)
    # PostgreSQL and SQLite both order ids by their digits.
    assert [each for each in found if each in rows] == sorted(rows, reverse=True)


def test_few_tokens_take_two_queries(principal):
    for number in range(5):
        store_usage(create_token(principal, label=str(number)), micro_usd=number)
    # Other tests leave tokens, which may fill further pages.
    rows = ApiToken.objects.filter(principal=principal)
    with CaptureQueriesContext(connection) as queries:
        list(rows.with_usage(NOW))
    assert len(queries) == 2


def test_tokens_are_found_by_user_name_and_id(principal):
    user_id = identity.derive_user_id(principal)
    by_name, by_id = create_token(principal), create_token(str(user_id).upper())
    create_token(f"{principal}x")
    assert set(user_lookup.user_tokens(user_id)) == {by_name, by_id}
    assert user_lookup.user_tokens(user_id).active(NOW).count() == 2
    api_tokens.revoke(str(by_id.id), now=NOW, by=ADA)
    assert user_lookup.user_tokens(user_id).active(NOW).count() == 1


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
    row.as_of = row.last_used_at = NOW
    row.spent_micro_usd, row.spent_this_month_micro_usd = 3_100_000, 40_000
    row.unpriced_turns = 1
    assert re.split(" {2,}", formatting.token_line(row)) == [
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
    row.spent_micro_usd, row.unpriced_turns, row.as_of = 400, 3, NOW + 2 * HOUR
    line = formatting.token_line(row)
    assert "  $0.0005 total  " in line
    assert "  spent $0.0004 + 3 turns of unknown price  " in line
    assert line.endswith("never used  expired 2026-11-21 13:00")
    row, _ = api_tokens.revoke(str(row.id), now=NOW, by=ADA)
    assert "revoked 2026-11-21 12:00" in formatting.token_line(row)
