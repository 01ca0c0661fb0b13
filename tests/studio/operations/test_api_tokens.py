"""Tokens in the studio: the form, the list and the usage bars."""

import uuid
from datetime import UTC, datetime

import pytest

from access.limits import time_windows
from access.models import AuditEntry, UsageCounter
from access.tokens import api_tokens
from access.users import identity
from tests.access.actors import ADA
from tests.gateway.calls import error
from tests.gateway.memory_client import ok

pytestmark = pytest.mark.database

TOKENS = "/admin/tokens"


def create(user, label, **terms):
    return api_tokens.create_token(label, user, by=ADA, **terms)[0]


def add_usage(row, length, micro_usd):
    now = int(datetime.now(UTC).timestamp())
    window = time_windows.window_at(length, now)
    UsageCounter.objects.create(
        subject=f"token:{row.id.hex}",
        window=window.length,
        start=window.start,
        last_at=now,
        micro_usd=micro_usd,
    )


def list_tokens(script, user, **query):
    data = ok(script.get(TOKENS, params=query))["data"]
    return {token["label"]: token for token in data if token["principal"] == user}


def test_revoked_tokens_are_listed_on_request(script, user):
    create(user, "active")
    api_tokens.revoke(str(create(user, "gone").id), by=ADA)
    assert list(list_tokens(script, user)) == ["active"]
    assert list(list_tokens(script, user, all="no")) == ["active"]
    for every in ("1", "true", "on"):
        data = list_tokens(script, user, all=every)
        assert {label: token["state"] for label, token in data.items()} == {
            "gone": "revoked",
            "active": "active",
        }


def test_usage_is_shown_as_share_of_the_budget(script, user):
    for budget, label in (("monthly", "month"), ("total", "all")):
        row = create(user, label, budget=budget, limit_micro_usd=1_000)
        add_usage(row, time_windows.EVER, 750)
        add_usage(row, time_windows.CALENDAR_MONTH, 250)
    add_usage(
        create(user, "over", budget="total", limit_micro_usd=10), time_windows.EVER, 11
    )
    create(user, "nothing", budget="total", limit_micro_usd=0)
    create(user, "free")
    shares = {
        label: token["share"] for label, token in list_tokens(script, user).items()
    }
    assert shares == {
        "month": 0.25,
        "all": 0.75,
        "over": 1.0,
        "nothing": 1.0,
        "free": None,
    }


def test_page_shows_spend_and_terms(browser, user):
    row = create(user, "page", budget="monthly", limit_micro_usd=20_000_000)
    add_usage(row, time_windows.EVER, 7_500_000)
    add_usage(row, time_windows.CALENDAR_MONTH, 2_500_000)
    page = browser.get(f"{TOKENS}/{row.id}").text
    for text in ("$20.00 / month", "$2.50", "$7.50", "as the agent says"):
        assert text in page, text
    for link in (f"users/{user}", f"spend?by=day&amp;token={row.id}"):
        assert f'href="/admin/{link}"' in page, link


def test_tokens_of_separate_users_name_no_user(browser, user):
    row = create(user, "many", client_users="separate")
    assert f"{user}/…" in browser.get(f"{TOKENS}/{row.id}").text
    assert "separate users" in browser.get(TOKENS).text


def test_usage_counters_name_their_subjects(script, user):
    row = create(user, "laptop")
    add_usage(row, time_windows.EVER, 1)
    user_id = identity.derive_user_id(user)
    ever = {"window": 0, "start": 0, "last_at": 0}
    UsageCounter.objects.create(subject=f"user:{user_id.hex}", **ever)
    UsageCounter.objects.create(subject=f"agent:{user}", **ever)

    def name_of(**query):
        (counter,) = ok(script.get("/admin/usage-counters", params=query))["data"]
        return counter["name"]

    assert name_of(subject=f"token:{row.id.hex}") == "token laptop"
    assert name_of(user=user) == f"user {user}"
    assert name_of(subject=f"agent:{user}") == f"agent {user}"


def test_form_accepts_agent_list_and_blank_date(browser, script, user):
    label = f"form-{uuid.uuid4().hex[:8]}"
    form = {"label": label, "principal": user, "agents": " assistant, ,claude, "}
    page = browser.submit(TOKENS, {**form, "expires": " 2199-12-31 "})
    assert page.status_code == 200
    created = list_tokens(script, user)[label]
    assert created["agents"] == ["assistant", "claude"]
    assert created["expires_at"].startswith("2199-12-31")
    browser.submit(TOKENS, {**form, "label": "ever", "expires": " Never "})
    assert list_tokens(script, user)["ever"]["expires_at"] is None


def test_form_creates_a_token_with_separate_users(browser, script, user):
    form = {"label": "webui", "principal": user, "client_users": "separate"}
    page = browser.submit(TOKENS, form)
    assert page.status_code == 200
    assert "API token created" in page.text
    created = list_tokens(script, user)["webui"]
    assert created["client_users"] == "separate"
    entry = AuditEntry.objects.filter(action="token.create").latest("at")
    assert (entry.details["principal"], entry.details["client_users"]) == (
        user,
        "separate",
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"label": " "}, "label"),
        ({"budget": "total"}, "limit_usd"),
        ({"limit_usd": "5"}, "limit_usd"),
        ({"budget": "total", "limit_usd": "lots"}, "limit_usd"),
        ({"budget": "total", "limit_usd": "0.0000001"}, "limit_usd"),
        ({"expires": "some day"}, "expires"),
        ({"expires": "2001-01-01"}, "expires"),
        ({"agents": "nobody"}, "agents"),
    ],
)
def test_refused_form_marks_the_field(browser, script, user, fields, param):
    form = {"label": "mine", "principal": user, **fields}
    assert error(script.post(TOKENS, json=form), 400)["param"] == param
    page = browser.submit(TOKENS, form)
    assert page.status_code == 400
    before, _, within = page.text.partition(f'<form method="post" action="{TOKENS}"')
    assert f'data-param="{param}"' in within
    assert 'role="alert"' in within
    assert 'role="alert"' not in before
    assert f'name="principal" required maxlength="512" value="{user}"' in within
