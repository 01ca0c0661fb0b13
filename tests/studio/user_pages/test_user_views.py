"""The list of users, and the summary, export and erasure of one."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from access.models import AuditEntry
from access.users import identity
from core.ids import UserId
from memory.models import Fact, Owner, Session, Thread
from telemetry.models import Turn
from tests.conftest import CONFIG
from tests.gateway.calls import error
from tests.gateway.memory_client import ok
from tests.memory.user_data import sample_user
from tests.telemetry.sample_turns import model_call, store_turn

pytestmark = pytest.mark.database

USERS = "/admin/users"
LIMITS = """
limits:
  - {per: principal, tokens_per_day: 1000}
  - {per: agent, usd_per_day: 1}
"""
FAR_FUTURE = datetime(2199, 1, 1, tzinfo=UTC)
"""Later than the activity in other tests."""


@pytest.fixture
def alice(server, user):
    """A user with rows in every table."""
    user_id = identity.derive_user_id(user)
    sample_user.store_user_data(user_id)
    yield user_id
    Turn.objects.filter(user_id=user_id).delete()  # One is of the next hour.


def user_url(user_id):
    return f"{USERS}/{user_id}"


def find(script, text):
    return ok(script.get(USERS, params={"q": text}))["data"]


# The list.


def test_users_are_found_by_name_id_and_id_prefix(script, alice, user):
    for text in (user, f" {user} ", str(alice), str(alice)[:13], alice.hex.upper()):
        (found,) = find(script, text)
        assert found["id"] == str(alice)
    assert find(script, f"{user}-and-more") == []


def test_user_is_listed_with_counts_and_cost(script, alice, user):
    now = datetime.now(UTC)
    store_turn(model_call(cost_micro_usd=700), user_id=alice, started_at=now)
    store_turn(user_id=alice, started_at=now, cost_micro_usd=None)
    (found,) = find(script, user)
    assert found.pop("active_at") > "2026"
    assert found == {
        "object": "user",
        "id": str(alice),
        "name": user,
        "threads": 2,
        "messages": 8,
        "facts": 1,
        "turns": 2,
        "spent_micro_usd": 700,
        "unpriced_turns": 1,
    }


def test_users_are_found_by_part_of_a_token_principal(script, user):
    created = ok(
        script.post("/admin/tokens", json={"label": "x", "principal": user}), 201
    )
    sample_user.store_conversation(identity.derive_user_id(user), "plums")
    (found,) = find(script, user[8:30].upper())
    assert (found["id"], found["name"]) == (str(identity.derive_user_id(user)), user)
    assert created["principal"] == user


def test_users_are_paginated_by_last_activity(script, server):
    users = _active(*(FAR_FUTURE + timedelta(hours=n) for n in range(120)))
    user_ids = [str(user) for user in users]
    seen, after = [], None
    while len(seen) < 120:
        page = ok(script.get(USERS, params={"after": after} if after else {}))
        seen += [each["id"] for each in page["data"] if each["id"] in user_ids]
        after = page["last_id"]
    assert seen == user_ids[::-1]
    Thread.objects.filter(user_id__in=users).delete()


def test_users_active_at_the_same_time_are_paginated(script, server):
    users = _active(*[FAR_FUTURE + timedelta(days=9)] * 60)
    first = ok(script.get(USERS))
    second = ok(script.get(USERS, params={"after": first["last_id"]}))
    seen = [each["id"] for each in (*first["data"], *second["data"])]
    assert len(set(seen)) == len(seen)
    assert {str(user) for user in users} <= set(seen)
    Thread.objects.filter(user_id__in=users).delete()


def _active(*times):
    """Store users who were active then, and return them."""
    rows = [
        Thread(user_id=uuid.uuid4(), length=3, created_at=user_url, updated_at=user_url)
        for user_url in times
    ]
    Thread.objects.bulk_create(rows)
    return [row.user_id for row in rows]


def test_users_with_only_failures_or_facts_are_listed(script, server):
    failed, remembered = UserId(uuid.uuid4()), UserId(uuid.uuid4())
    store_turn(user_id=failed, outcome="error", error="provider 'x' failed")
    sample_user.store_fact(remembered, "Likes plums")
    Owner.objects.create(user_id=remembered, created_at=datetime.now(UTC))
    for user_id, counts in ((failed, (0, 0)), (remembered, (0, 1))):
        (found,) = find(script, str(user_id))
        assert (found["messages"], found["facts"]) == counts


def test_invalid_page_position_is_refused(script):
    refusal_page = error(script.get(USERS, params={"after": "plums"}), 400)
    assert refusal_page["param"] == "after"


def test_search_without_results_says_so(browser):
    page = browser.get(f"{USERS}?q={uuid.uuid4()}").text
    assert "No matching rows." in page
    assert "the exact name clients send" in page


# A single user.


def test_user_page_shows_a_summary(script, alice, user):
    now = datetime.now(UTC)
    store_turn(user_id=alice, started_at=now + timedelta(hours=1), cost_micro_usd=700)
    data = ok(script.get(user_url(alice)))
    assert data["id"] == str(alice)
    assert (data["threads"], data["messages"]) == (2, 8)
    assert data["facts"] == {"active": 1, "superseded": 1}
    assert data["time_zone"] == "Europe/Lisbon"
    assert data["scores"] == [
        {"judge": "quality", "criterion": "tone", "mean": 7.0, "count": 1}
    ]
    assert datetime.fromisoformat(data["last_seen_at"]) > now + timedelta(minutes=59)
    assert ok(script.get(user_url(user)))["id"] == data["id"]


def test_limits_are_shown_with_usage(configure, script, alice):
    configure(CONFIG + LIMITS)
    (limit,) = ok(script.get(user_url(alice)))["limits"]
    assert limit.pop("resets_at")
    assert limit == {
        "limit": "daily token limit",
        "unit": "tokens",
        "used": 0,
        "maximum": 1000,
        "share": 0.0,
    }


def test_unknown_user_is_404(script, browser):
    stranger = uuid.uuid4()
    assert error(script.get(user_url(stranger)), 404)["code"] == "user_not_found"
    page = browser.get(user_url(stranger))
    assert page.status_code == 404
    assert "No such user" in page.text


@pytest.mark.parametrize(
    "path",
    ["", "/facts", "/scores", "/threads", "/turns", "/erase", "/facts?q=plums"],
)
def test_every_tab_is_a_page(browser, alice, path):
    page = browser.get(f"{user_url(alice)}{path}", follow_redirects=True)
    assert page.status_code == 200
    assert f'href="{USERS}/{alice}' in page.text


def test_users_are_filtered_by_their_last_activity(script, alice):
    old = datetime.now(UTC) - timedelta(days=2)
    for period, is_found in (("1h", True), ("to", False)):
        query = {"to": old.isoformat()} if period == "to" else {"period": period}
        found = ok(script.get(USERS, params={"q": str(alice), **query}))["data"]
        assert bool(found) is is_found


def test_threads_of_all_users_are_listed(script, browser, alice, user):
    (thread, other) = ok(script.get("/admin/threads", params={"user": user}))["data"]
    assert {thread["user_id"], other["user_id"]} == {str(alice)}
    assert thread["updated_at"] >= other["updated_at"]
    assert ok(script.get(f"/admin/threads/{thread['id']}")) == thread
    first = ok(script.get("/admin/threads", params={"limit": 1}))
    second = ok(
        script.get("/admin/threads", params={"limit": 1, "after": first["last_id"]})
    )
    assert first["data"][0]["id"] > second["data"][0]["id"]
    page = browser.get("/admin/threads", params={"user": user}).text
    assert f"/admin/users/{alice}?thread=" in page


def test_sessions_of_all_users_are_listed(script, browser, alice, user):
    thread = Thread.objects.filter(user_id=alice).earliest("id")
    at = datetime.now(UTC)
    values = {
        "user_id": alice,
        "end_position": 2,
        "started_at": at,
        "ended_at": at,
        "reason": "idle",
        "score": 9,
        "comment": "It helped.",
    }
    session, _ = Session.objects.update_or_create(
        thread=thread, first_position=0, defaults=values
    )
    (shown,) = ok(script.get("/admin/sessions", params={"user": user}))["data"]
    assert shown["id"] == str(session.pk)
    assert (shown["reason"], shown["score"]) == ("idle", 9)
    others = {"user": user, "reason": "request"}
    assert not ok(script.get("/admin/sessions", params=others))["data"]
    page = browser.get(f"/admin/users/{alice}/sessions").text
    assert f"/admin/users/{alice}?thread=" in page
    assert "It helped." in page
    assert '/sessions" aria-current="page"' in page
    detail = browser.get(f"/admin/sessions/{session.pk}").text
    assert f"/admin/users/{alice}?thread=" in detail
    Session.objects.filter(pk=session.pk).update(error="no JSON")
    assert "Failed: no JSON" in browser.get(f"/admin/users/{alice}/sessions").text


def test_messages_of_all_users_are_listed(script, browser, alice, user):
    found = ok(script.get("/admin/messages", params={"user": user}))["data"]
    assert len(found) == 8
    assert {each["user_id"] for each in found} == {str(alice)}
    assert [each["id"] for each in found] == sorted(e["id"] for e in found)[::-1]
    page = browser.get("/admin/messages", params={"user": user}).text
    last = found[0]
    assert f"before={last['position'] + 1}#m{last['position']}" in page


def test_actions_erase_chosen_users(script, alice):
    other = UserId(uuid.uuid4())
    sample_user.store_conversation(other, "plums")
    ids = [str(alice), str(other)]
    results = ok(script.post(f"{USERS}?action=erase", json={"ids": ids}))["data"]
    assert [each["is_changed"] for each in results] == [True, True]
    assert AuditEntry.objects.filter(action="user.erase", target__in=ids).count() == 2
    assert not Thread.objects.filter(user_id__in=[alice, other]).exists()


def test_users_unknown_to_the_list_can_be_erased(script):
    stranger = uuid.uuid4()
    erased = ok(script.post(f"{user_url(stranger)}/erase"))
    assert (erased["object"], set(erased["deleted"].values())) == ("user.erased", {0})


def test_page_shows_what_the_user_has_switched_off(script, browser, alice):
    page = browser.get(user_url(alice)).text
    assert "switched" not in page
    Owner.objects.update_or_create(
        user_id=alice,
        defaults={"is_recall_on": False, "created_at": timezone.now()},
    )
    page = browser.get(user_url(alice)).text
    assert "The user has switched recall off" in page
    assert "The user has switched learning off" not in page
    summary = ok(script.get(user_url(alice)))
    assert (summary["recall"], summary["learning"]) == (False, True)


# Export and erasure.


def test_user_data_can_be_exported(script, alice):
    response = script.get(f"{user_url(alice)}/export")
    data = ok(response)
    assert (data["user_id"], len(data["threads"])) == (str(alice), 2)
    assert response.headers["content-disposition"].startswith("attachment")
    assert AuditEntry.objects.filter(action="user.export", target=alice).count() == 1


def test_viewers_cannot_export_or_erase(viewer, user):
    user_id = identity.derive_user_id(user)
    sample_user.store_user_data(user_id)
    assert viewer.get(user_url(user_id)).status_code == 200
    assert viewer.get(f"{user_url(user_id)}/export").status_code == 403
    assert viewer.delete(user_url(user_id)).status_code == 403
    assert Fact.objects.filter(user_id=user_id).exists()


def test_script_erases_a_user(script, alice):
    counted = ok(script.get(f"{user_url(alice)}/erase"))["would_delete"]
    deleted = ok(script.delete(user_url(alice)))["deleted"]
    assert deleted == counted
    assert deleted["messages"] == 8
    assert not any(sample_user.count_rows(alice).values())
    (entry,) = AuditEntry.objects.filter(action="user.erase", target=alice)
    assert entry.actor == "studio: local"
    assert "plums" not in str(entry.details)
    assert script.get(user_url(alice)).status_code == 404


def test_browser_confirms_and_erases_by_form(browser, alice):
    address = f"{user_url(alice)}/erase"
    assert "Erase permanently" in browser.get(address).text
    page = browser.submit(address, {})
    assert page.url.path == USERS
    assert f"User {alice} erased" in page.text
