"""Bursts of failed sign-ins in the log and in the audit."""

import logging
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from access.audit import audit_log
from access.authentication import failed_logins
from access.authentication.failed_logins import FailedLoginBurst
from access.models import AuditEntry
from tests.gateway.calls import until

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def scope() -> str:
    """A scope without failures of other tests."""
    return f"scope-{uuid.uuid4()}"


def bursts_of(scope: str, minutes: int = 60) -> list[str]:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return [str(each) for each in failed_logins.bursts_since(at) if each.scope == scope]


def entries(scope: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(target=scope).order_by("id"))


def test_burst_is_one_log_line_and_one_audit_entry(scope, caplog):
    with caplog.at_level(logging.INFO, "access"):
        failed_logins.report(FailedLoginBurst(scope, "192.0.2.1", "ada", failures=5))
    until(lambda: entries(scope))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"5 failed sign-ins from 192.0.2.1 for name 'ada' ({scope}): further "
        "attempts are delayed"
    )
    [entry] = entries(scope)
    assert (entry.action, entry.actor) == ("login.fail", "unauthenticated")
    assert entry.origin == "192.0.2.1"
    assert entry.details == {
        "failures": 5,
        "name": "ada",
        "several_addresses": False,
    }


def test_bursts_are_summarized_by_address_and_name(scope):
    for burst in (
        FailedLoginBurst(scope, "192.0.2.1", "ada", failures=5),
        FailedLoginBurst(scope, "192.0.2.1", "ada", failures=12),
        FailedLoginBurst(scope, "192.0.2.2", "ada", failures=6),
        FailedLoginBurst(scope, "192.0.2.3", "bob", failures=7, is_distributed=True),
        FailedLoginBurst(scope, "192.0.2.4", "bob", failures=1, is_distributed=True),
        FailedLoginBurst(scope, "192.0.2.4", None, failures=2),
    ):
        failed_logins.report(burst)
    until(lambda: len(entries(scope)) == 6)
    assert bursts_of(scope) == [
        "17 failed sign-ins from 192.0.2.1 for name 'ada'",
        "8 failed sign-ins from several addresses for name 'bob'",
        "6 failed sign-ins from 192.0.2.2 for name 'ada'",
        "2 failed sign-ins from 192.0.2.4",
    ]


def test_old_bursts_are_not_summarized(scope):
    failed_logins.report(FailedLoginBurst(scope, "192.0.2.1", "ada", failures=5))
    until(lambda: entries(scope))
    AuditEntry.objects.filter(target=scope).update(
        at=datetime.now(UTC) - timedelta(minutes=61)
    )
    assert bursts_of(scope) == []
    assert len(bursts_of(scope, minutes=62)) == 1


def test_any_username_can_be_stored(scope):
    name = "\x00\ud800\n" + "x" * 5_000
    failed_logins.report(FailedLoginBurst(scope, "2001:db8::/64", name, failures=5))
    [entry] = until(lambda: entries(scope))
    assert entry.details["name"].startswith("\\x00\\ud800\\nxxx")
    assert len(entry.details["name"]) == 100
    assert len(bursts_of(scope)) == 1


def test_database_outage_is_only_logged(scope, caplog, monkeypatch):
    def fail(event: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(audit_log, "write", fail)
    failed_logins.report(FailedLoginBurst(scope, "192.0.2.1", "ada", failures=5))
    until(lambda: [r for r in caplog.records if "could not record" in r.getMessage()])
    assert entries(scope) == []
