"""Lists of tables: pages, order, filters, actions, formats and permissions."""

import csv
import io
import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission

from access.authentication import accounts
from access.models import ApiToken, AuditEntry
from access.tokens import api_tokens, token_secrets
from admin_base.filters import TextFilter
from admin_base.model_pages.change_list import Ordering
from core.ids import UserId
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from tests.access.actors import ADA
from tests.gateway.calls import error
from tests.gateway.memory_client import ok

pytestmark = pytest.mark.database

TOKENS, AUDIT = "/admin/tokens", "/admin/audit"
AT = datetime(2031, 5, 4, 12, tzinfo=UTC)


def create(user, label, **terms):
    return api_tokens.create_token(label, user, by=ADA, **terms)[0]


# Pages and order.


@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.parametrize("field", ["created_at", "expires_at", "id"])
def test_pages_are_complete_in_every_order(database, user, field, is_descending):
    ends = [None, AT, AT, None, AT + timedelta(days=1), AT]
    rows = [create(user, str(number), expires_at=at) for number, at in enumerate(ends)]
    tokens = ApiToken.objects.filter(principal=user)
    ordering = Ordering(ApiToken._meta.get_field(field), is_descending)
    cursor, found = None, []
    while True:
        page = ordering.sorted(tokens)
        page = (ordering.after(page, cursor) if cursor else page)[:2]
        if not page:
            break
        found += page
        cursor = ordering.cursor(page[len(page) - 1])
    with_value = [each for each in rows if getattr(each, field) is not None]
    with_value.sort(key=lambda row: (getattr(row, field), row.pk))
    without = sorted(
        (each for each in rows if each not in with_value), key=lambda r: r.pk
    )
    if is_descending:
        with_value.reverse()
        without.reverse()
    assert found == with_value + without


def test_list_continues_after_its_last_row(script, user):
    for number in range(5):
        create(user, str(number))
    query = {"q": user, "limit": 2, "sort": "created_at"}
    labels, more = [], True
    while more:
        page = ok(script.get(TOKENS, params=query))
        labels += [each["label"] for each in page["data"]]
        query["after"], more = page["last_id"], page["has_more"]
    assert labels == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("actr=x", "actr"),
        ("sort=actor", "sort"),
        ("limit=501", "limit"),
        ("period=yesterday", "period"),
        ("from=x", "from"),
        ("after=x", "after"),
    ],
)
def test_invalid_parameters_are_refused_on_both_sides(script, browser, query, param):
    assert error(script.get(f"{AUDIT}?{query}"), 400)["param"] == param
    page = browser.get(f"{AUDIT}?{query}")
    assert page.status_code == 400
    assert 'role="alert"' in page.text


# Filters.


def test_range_of_time_filters_and_stays_in_the_menu(script, browser, user):
    for days in (1, 3, 40):
        AuditEntry.objects.create(
            at=datetime.now(UTC) - timedelta(days=days), target=user, action=f"d{days}"
        )

    def actions(**query):
        data = ok(script.get(AUDIT, params={"target": user, **query}))["data"]
        return [each["action"] for each in data]

    assert actions(period="7d") == actions(since="7d") == ["d1", "d3"]
    before = (datetime.now(UTC) - timedelta(days=2)).date()
    assert actions(to=f"{before}") == ["d3", "d40"]
    assert actions(**{"from": "2020-01-01", "to": f"{before}"}) == ["d3", "d40"]
    menu = browser.get(f"{AUDIT}?period=7d&target={user}").text
    assert 'href="/admin/audit?period=7d"' in menu
    assert 'href="/admin/tokens"' in menu


def test_filters_of_a_page_are_in_its_form(browser):
    page = browser.get(f"{AUDIT}?actor=ada&period=6h").text
    assert 'name="actor" value="ada"' in page
    assert "<option selected>6h</option>" in page


# Actions.


def test_bulk_action_reports_each_row(script, user):
    one, two = create(user, "one"), create(user, "two")
    two.revoke()
    missing = str(uuid.uuid4())
    ids = [str(one.pk), str(two.pk), missing]
    results = ok(script.post(f"{TOKENS}?action=revoke", json={"ids": ids}))["data"]
    assert [each["is_changed"] for each in results] == [True, False, False]
    assert "no token" in results[2]["error"]
    one.refresh_from_db()
    assert one.state == "revoked"
    assert error(script.post(f"{TOKENS}?action=x", json={"ids": ids}), 400)
    assert error(script.post(f"{TOKENS}?action=revoke", json={"ids": []}), 400)


def test_browser_revokes_and_exports_chosen_rows(browser, user):
    rows = [create(user, label) for label in ("one", "two")]
    chosen = {"_selected_action": [str(row.pk) for row in rows]}
    answer = browser.submit(TOKENS, {"action": "export", **chosen})
    assert answer.headers["Content-Type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [line["label"] for line in lines] == ["one", "two"]
    page = browser.submit(TOKENS, {"action": "revoke", **chosen})
    assert "Revoke: 2 of 2 changed" in page.text
    assert {row.state for row in ApiToken.objects.filter(principal=user)} == {"revoked"}


def test_action_is_in_the_audit_and_in_the_log_of_the_admin(script, user):
    row = create(user, "secret name")
    before = LogEntry.objects.count()
    assert ok(script.post(f"{TOKENS}/{row.pk}/revoke"))["state"] == "revoked"
    assert ok(script.post(f"{TOKENS}/{row.pk}/revoke"))["state"] == "revoked"
    entry = AuditEntry.objects.get(target=str(row.pk), action="token.revoke")
    log = LogEntry.objects.get(object_id=str(row.pk))
    assert LogEntry.objects.count() == before + 1
    assert log.change_message == entry.action
    assert "secret name" not in log.object_repr


def test_button_is_shown_while_it_applies(browser, user):
    row = create(user, "one")
    path = f"{TOKENS}/{row.pk}"
    assert f'action="{path}/revoke"' in browser.get(path).text
    page = browser.submit(f"{path}/revoke", {}, form_page=path)
    assert "revoked" in page.text
    assert f'action="{path}/revoke"' not in page.text


def test_secret_of_a_new_token_is_shown_once(browser, user):
    page = browser.submit(TOKENS, {"label": "once", "principal": user})
    (secret,) = re.findall(r"sk-coulisse-[\w-]{43}", page.text)
    assert ApiToken.objects.verify(token_secrets.digest(secret), datetime.now(UTC))
    assert secret not in browser.get(str(page.url)).text


# Formats.


def test_list_is_available_as_csv(script, user):
    row = create(user, "=1+1", agents=["assistant"])
    text = script.get(f"{TOKENS}?q={user}", headers={"Accept": "text/csv"}).text
    (line,) = csv.DictReader(io.StringIO(text))
    assert line["id"] == str(row.pk)
    assert line["label"] == "'=1+1"
    assert line["agents"] == '["assistant"]'


def test_text_is_searched_in_the_first_rows_of_a_range(script, monkeypatch):
    monkeypatch.setattr(TextFilter, "max_searched", 2)
    name = f"searched-{uuid.uuid4().hex[:8]}"
    for day in range(4):
        at = AT + timedelta(days=day)
        AuditEntry.objects.create(at=at, actor=f"{name}-{day}", action="x")

    def found(query: str) -> list[str]:
        rows = ok(script.get(f"{AUDIT}?actor={name}&from=2031-05-01&{query}"))["data"]
        return [row["actor"][-1] for row in rows]

    assert found("") == ["3", "2"]
    assert found("to=2031-05-05") == ["1", "0"]
    assert found("to=2031-05-05&target=elsewhere") == []


def test_dates_lead_from_months_to_days(browser):
    page = browser.get(f"{AUDIT}?from=2031-01-01&to=2031-03-31&action=x").text
    month = "from=2031-02-01&amp;to=2031-02-28"
    assert f'href="?action=x&amp;{month}"' in page or f"{month}&amp;action=x" in page
    page = browser.get(f"{AUDIT}?from=2031-02-01&to=2031-02-28").text
    assert 'href="?from=2031-02-28&amp;to=2031-02-28"' in page
    assert "29 Feb" not in page
    assert "Dec" in browser.get(AUDIT).text


# Permissions.


@pytest.mark.parametrize("permissions", [0, False, "x", {}])
def test_permissions_of_a_group_must_be_a_list(operator, permissions):
    body = {"name": f"g-{uuid.uuid4()}", "permissions": permissions}
    response = operator.post("/admin/groups", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "permissions"


def test_group_made_in_the_studio_sees_what_it_is_given(viewer, operator):
    spend = Permission.objects.get(codename="view_spend")
    name = f"accountants-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "permissions": [spend.pk]}
    group = ok(operator.post("/admin/groups", json=body), 201)
    vera = accounts.get_or_create_user("vera")
    body = {"groups": [group["id"]]}
    assert ok(operator.patch("/admin/accounts/vera", json=body))["groups"] == [name]
    assert ok(viewer.get("/admin/spend"))
    for path in ("/admin/users", "/admin/live", TOKENS, AUDIT, "/admin/turns"):
        assert error(viewer.get(path), 403)["code"] == "role_needed"
    day = ok(viewer.get("/admin/"))
    assert day["micro_usd"] is not None
    assert day["agents"] == day["alerts"] == day["recent_errors"] == []
    menu = viewer.get("/admin/", headers={"Accept": "text/html"}).text
    assert 'href="/admin/spend"' in menu
    assert 'href="/admin/users"' not in menu
    assert 'href="/admin/tokens"' not in menu
    vera.groups.set(Group.objects.filter(name="viewer"))


def test_group_changes_only_what_it_may(viewer, operator):
    names = ["view_configuration", "view_spend", "view_task", "change_task"]
    granted = Permission.objects.filter(codename__in=names)
    name = f"dispatchers-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "permissions": [each.pk for each in granted]}
    group = ok(operator.post("/admin/groups", json=body), 201)
    body = {"groups": [group["id"]]}
    assert ok(operator.patch("/admin/accounts/vera", json=body))["groups"] == [name]

    def page(path: str) -> str:
        response = viewer.get(path, headers={"Accept": "text/html"})
        assert response.status_code == 200
        return response.text

    [task] = Task.objects.enqueue(
        [TaskSpec("agent", UserId(uuid.uuid4()), "assistant", "later")]
    )
    assert "Cancel</button>" in page(f"/admin/tasks/{task.pk}")
    assert ok(viewer.post(f"/admin/tasks/{task.pk}/cancel"))["state"] == "cancelled"
    assert ok(viewer.get("/admin/spend"))
    assert error(viewer.get("/admin/users"), 403)["code"] == "role_needed"
    assert error(viewer.get("/admin/turns"), 403)["code"] == "role_needed"

    file = page("/admin/config/edit")
    assert "readonly>" in file
    assert ">read-only</span>" in file
    assert ">Save</button>" not in file
    assert viewer.put("/admin/config", json={}).status_code == 403
    assert "New agent" not in page("/admin/agents")
    accounts.get_or_create_user("vera").groups.set(Group.objects.filter(name="viewer"))


def test_templates_ask_for_permissions_not_for_roles():
    templates = Path(settings.BASE_DIR, "templates").rglob("*.html")
    assert [each for each in templates if "is_operator" in each.read_text()] == []


def test_form_of_a_group_has_the_permissions_in_use(browser):
    page = browser.get("/admin/groups/add").text
    assert "Can view the spend" in page
    assert "Can view API token" in page
    assert "Can add audit entry" not in page


def test_groups_of_the_code_stay(script):
    group = Group.objects.get(name="viewer")
    path = f"/admin/groups/{group.pk}"
    assert error(script.patch(path, json={"name": "x"}), 403)
    browser = script.get(path, headers={"Accept": "text/html"})
    assert browser.status_code == 200
    assert 'name="_save"' not in browser.text


def test_page_of_an_account_leads_back_to_the_accounts(operator):
    accounts.get_or_create_user("vera")
    html = {"Accept": "text/html"}
    page = operator.get("/admin/accounts/vera", headers=html).text
    assert '<a href="/admin/accounts">Accounts</a>' in page
    missing = error(operator.patch("/admin/accounts/nora", json={}), 404)
    assert "from their first sign-in on" in missing["message"]


def test_own_account_cannot_be_changed(operator):
    body = {"is_superuser": True}
    assert error(operator.patch("/admin/accounts/olga", json=body), 403)
