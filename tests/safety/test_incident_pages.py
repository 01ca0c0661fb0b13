"""Incidents in the studio: who reads them, the audit of reads, counts, retention."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group

from access.authentication import accounts
from access.models import AuditEntry
from database import retention
from safety.models import Incident
from tests.safety.safe_server import check, safety_yaml
from tests.studio.conftest import (  # noqa: F401
    TWO_PEOPLE,
    browser,
    operator,
    registered_tables,
    script,
    viewer,
)

pytestmark = pytest.mark.database

NOW = datetime.now(UTC)


@pytest.fixture
def incident():
    name = f"check-{uuid.uuid4().hex[:8]}"
    return Incident.objects.create(
        at=NOW,
        check_name=name,
        level="crisis",
        severity=2,
        stage="before",
        agent="assistant",
        actions="replace",
        reason="The user despairs.",
        excerpt="I give up",
        user_id=uuid.uuid4(),
        turn_id=uuid.uuid4(),
    )


def reads() -> int:
    return AuditEntry.objects.filter(action="incident.read").count()


def test_incidents_are_listed_with_counts(script, incident):  # noqa: F811
    path = f"/admin/incidents?check={incident.check_name}"
    page = script.get(path, headers={"Accept": "application/json"}).json()
    (row,) = page["data"]
    assert row["check"] == incident.check_name
    assert (row["level"], row["reason"]) == ("crisis", "The user despairs.")
    count = {"day": f"{NOW:%Y-%m-%d}", "check": incident.check_name, "count": 1}
    assert count in page["counts"]


def test_page_has_the_chart_and_the_incident(browser, incident):  # noqa: F811
    Incident.objects.filter(pk=incident.pk).update(user_id=None, turn_id=None)
    page = browser.get(f"/admin/incidents?check={incident.check_name}").text
    assert "Incidents by day" in page
    assert "incognito" in page
    page = browser.get(f"/admin/incidents/{incident.pk}").text
    assert "The user despairs." in page


def test_incidents_of_a_user_have_the_users_tabs(browser, incident):  # noqa: F811
    page = browser.get(f"/admin/incidents?user={incident.user_id}").text
    assert f"/admin/users/{incident.user_id}" in page
    assert incident.check_name in page


def test_page_links_to_the_turn_and_the_user(browser, incident):  # noqa: F811
    page = browser.get(f"/admin/incidents/{incident.pk}").text
    assert f"/admin/turns/{incident.turn_id}" in page
    assert f"/admin/users/{incident.user_id}" in page


def test_each_read_is_in_the_audit(script, incident):  # noqa: F811
    before = reads()
    headers = {"Accept": "application/json"}
    script.get(f"/admin/incidents?check={incident.check_name}", headers=headers)
    script.get(f"/admin/incidents/{incident.pk}", headers=headers)
    script.get("/admin/incidents?check=nothing", headers=headers)
    script.get(
        f"/admin/incidents?check={incident.check_name}", headers={"Accept": "text/csv"}
    )
    entries = AuditEntry.objects.filter(action="incident.read").order_by("-id")
    assert reads() == before + 3
    assert {entry.target for entry in entries[:3]} == {str(incident.pk)}


def test_only_the_group_reads_incidents(operator, viewer, incident):  # noqa: F811
    path = f"/admin/incidents/{incident.pk}"
    assert operator.get(path).status_code == 403
    assert viewer.get(path).status_code == 403
    assert "/admin/incidents" not in viewer.get("/admin/", headers=HTML).text
    group = Group.objects.get(name=Incident.reader_group)
    vera = accounts.get_or_create_user("vera")
    vera.groups.add(group)
    try:
        assert viewer.get(path).status_code == 200
        assert "/admin/incidents" in viewer.get("/admin/", headers=HTML).text
    finally:
        vera.groups.remove(group)


HTML = {"Accept": "text/html"}


def test_incidents_cannot_be_changed(script, incident):  # noqa: F811
    path = f"/admin/incidents/{incident.pk}"
    for method in ("PATCH", "PUT", "DELETE"):
        assert script.request(method, path, json={}).status_code == 405
    assert Incident.objects.get(pk=incident.pk).level == "crisis"


@pytest.mark.parametrize(("days", "is_kept"), [(1, False), (30, True), (None, True)])
def test_incidents_have_a_retention_of_their_own(configure, incident, days, is_kept):
    Incident.objects.filter(pk=incident.pk).update(at=NOW - timedelta(days=2))
    configure(safety_yaml(check(), keep_days=days))
    retention.delete_expired(Incident, NOW)
    assert Incident.objects.filter(pk=incident.pk).exists() is is_kept
