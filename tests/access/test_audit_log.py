"""Audit entries are stored with their change, and listed page by page."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from access.audit import audit_events, audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.models import AuditEntry
from access.users import caller
from core.ids import UserId
from core.runtime import request_ids

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def target() -> str:
    return f"thing-{uuid.uuid4()}"


def write_entry(target, action="thing.change", actor="user:ada", at=None, **details):
    audit_log.write(AuditEvent(action, Actor(actor, "192.0.2.7"), target, details))
    entry = AuditEntry.objects.latest("id")
    if at is not None:
        AuditEntry.objects.filter(pk=entry.pk).update(at=at)
    return entry


def run(*arguments: str, remark: str = "") -> list[str]:
    """Return the command's output lines; stderr must have this remark."""
    out, remarks = StringIO(), StringIO()
    call_command("audit", *arguments, stdout=out, stderr=remarks)
    assert remarks.getvalue().removesuffix("\n") == remark
    return out.getvalue().splitlines()


# Writes.


def test_audit_entry_is_one_insert_with_all_fields(target):
    token = request_ids.current.set("req_1")
    with CaptureQueriesContext(connection) as queries:
        write_entry(target, size=3, names=["a", "b"])
    request_ids.current.reset(token)
    assert len([q for q in queries if q["sql"].startswith("INSERT")]) == 1
    [entry] = AuditEntry.objects.filter(target=target)
    assert entry.action == "thing.change"
    assert (entry.actor, entry.origin) == ("user:ada", "192.0.2.7")
    assert entry.details == {"size": 3, "names": ["a", "b"]}
    assert entry.request_id == "req_1"
    assert abs(entry.at - datetime.now(UTC)) < timedelta(minutes=1)


def test_any_text_can_be_stored(target):
    nasty = "a\0\n\x1b[31m\udcff'; DROP TABLE access_auditentry; --"
    write_entry(f"{target}{nasty}", actor=nasty * 99, text=nasty, deep={nasty: [nasty]})
    [entry] = AuditEntry.objects.filter(target__startswith=target)
    assert entry.actor.isprintable()
    assert len(entry.actor) == 512
    assert "DROP TABLE" in entry.details["text"]
    [line] = run("--target", target)
    assert line.isprintable()


def test_long_text_is_truncated(target):
    write_entry(target, text="x" * 10_000)
    [entry] = AuditEntry.objects.filter(target=target)
    assert entry.details["text"] == "x" * 499 + "…"


def test_values_without_a_json_type_become_text(target):
    at, thing = datetime(2026, 1, 2, tzinfo=UTC), uuid.uuid4()
    write_entry(target, since=at, thing=thing, none=None, yes=True, nan=float("nan"))
    [entry] = AuditEntry.objects.filter(target=target)
    result = {"since": str(at), "thing": str(thing), "none": None, "yes": True}
    assert entry.details == {**result, "nan": "nan"}


def test_secrets_are_redacted(target):
    write_entry(target, text="made sk-coulisse-" + "a" * 43)
    [entry] = AuditEntry.objects.filter(target=target)
    assert "aaaa" not in str(entry.details)


def test_failed_change_is_not_audited(target):
    event = AuditEvent("thing.change", Actor("user:ada"), target)

    def change():
        write_entry(f"{target}-inner")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        audit_log.run_recorded(event, change)
    assert not AuditEntry.objects.filter(target=target).exists()


def test_unauditable_change_is_rolled_back(target, monkeypatch):
    audit_event = AuditEvent("thing.change", Actor("user:ada"), target)
    monkeypatch.setattr(audit_log, "write", lambda audit_event: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        audit_log.run_recorded(audit_event, write_entry, f"{target}-inner")
    assert not AuditEntry.objects.filter(target=target).exists()


def test_audited_change_returns_its_result(target):
    event = AuditEvent("thing.change", Actor("user:ada", "here"), target, {"a": 1})
    assert audit_log.run_recorded(event, lambda one, *, two: (one, two), 1, two=2) == (
        1,
        2,
    )
    [entry] = AuditEntry.objects.filter(target=target)
    assert (entry.actor, entry.origin, entry.details) == ("user:ada", "here", {"a": 1})


def test_audit_event_may_depend_on_the_result(target):
    def build_event(result):
        return AuditEvent("thing.make", Actor("user:ada"), f"{target}{result}")

    assert audit_log.run_recorded(build_event, lambda: 7) == 7
    assert AuditEntry.objects.filter(target=f"{target}7").exists()


def test_entry_joins_the_callers_transaction(target):
    with transaction.atomic():
        write_entry(target)
        transaction.set_rollback(True)
    assert not AuditEntry.objects.filter(target=target).exists()


# Actors.


def test_request_actor_is_the_credential_or_the_user():
    user_id = UserId(uuid.uuid4())
    token = caller.VerifiedToken(uuid.UUID(int=0xABCDEF01 << 96), "laptop", "ada")
    assert audit_events.request_actor(caller.ANONYMOUS, user_id, "192.0.2.7") == Actor(
        f"user:{user_id}", "192.0.2.7"
    )
    for scheme in ("basic", "oidc"):
        ada = caller.Caller("ada", None, scheme)
        assert audit_events.request_actor(ada, user_id, "").name == f"{scheme}:ada"
    suspended = caller.Caller("laptop", "ada", "tokens", token)
    assert (
        audit_events.request_actor(suspended, user_id, "").name
        == "token:laptop (abcdef01)"
    )


# Reads.


def test_action_may_be_a_prefix(target):
    old = write_entry(target, "thing.make", at=datetime(2026, 5, 6, tzinfo=UTC))
    new = write_entry(target, "thing.change", actor="basic:Bob")
    write_entry(target, "things.change")

    def found(action):
        entries = AuditEntry.objects.filter(target=target).newest_first()
        return list(entries.of_action(action))

    assert found("thing") == [new, old]
    assert found("thing.make") == [old]
    assert found("thing.mak") == []


@pytest.mark.parametrize("action", ["thing", "thing.make"])
def test_entries_of_an_action_are_read_along_an_index(action):
    plan = AuditEntry.objects.of_action(action).newest_first()[:50].explain()
    if connection.vendor == "sqlite":
        assert "USING INDEX access_audit_" in plan
        assert "TEMP B-TREE" not in plan


def test_action_without_a_verb_is_its_own_family(target):
    entry = write_entry(target, "extraction")
    assert list(AuditEntry.objects.filter(target=target).of_action("extraction")) == [
        entry
    ]


def test_page_is_one_query_along_an_index(target):
    for _ in range(3):
        write_entry(target)
    with CaptureQueriesContext(connection) as queries:
        list(AuditEntry.objects.newest_first()[:3])
    [query] = queries.captured_queries
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
        else:
            # As with many rows.
            with transaction.atomic():
                cursor.execute("SET LOCAL enable_seqscan = off")
                cursor.execute("SET LOCAL enable_bitmapscan = off")
                cursor.execute(f"EXPLAIN {query['sql']}")
        plan = str(cursor.fetchall())
    assert "access_audit_at" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan


# coulisse audit


def test_command_prints_one_line_per_entry(target):
    write_entry(target, at=datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC), size=3, name="x")
    assert run("--target", target) == [
        f"2026-05-06 07:08:09  thing.change      {target}  by user:ada  "
        "from 192.0.2.7  name=x  size=3"
    ]


def test_command_prints_json(target):
    entry = write_entry(target, size=3)
    [result] = json.loads("\n".join(run("--target", target, "--json")))
    assert result["id"] == entry.pk
    assert result["details"] == {"size": 3}
    assert result["request_id"] is None
    assert json.loads("".join(run("--target", f"{target}-else", "--json"))) == []


def test_command_output_can_be_filtered(target):
    write_entry(target, "thing.make", at=datetime(2026, 5, 6, tzinfo=UTC))
    write_entry(target, "thing.change", actor="basic:bob")
    of_target = ["--target", target]
    assert len(run(*of_target, "--since", "1h")) == 1
    assert len(run(*of_target, "--since", "2026-05-06")) == 2
    assert len(run(*of_target, "--action", "thing.make")) == 1
    assert len(run(*of_target, "--actor", "BOB")) == 1
    assert len(run(*of_target, "--actor", "b%b", remark="no matching entries")) == 0
    more = "there are more entries; raise --limit to list them"
    assert len(run(*of_target, "--limit", "1", remark=more)) == 1
    nothing = "no matching entries"
    assert run(*of_target, "--actor", "nobody", remark=nothing) == []


@pytest.mark.parametrize("words", [["--limit", "0"], ["--since", "tomorrow"]])
def test_invalid_filters_are_refused(words):
    with pytest.raises(CommandError):
        run(*words)
