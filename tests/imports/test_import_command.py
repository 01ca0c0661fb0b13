"""`coulisse import SOURCE`: the report of a source, printed and recorded."""

import json
import types
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from access.audit import audit_log
from access.models import AuditEntry
from imports import sources
from imports.errors import SourceUnreadable
from imports.report import MAX_REASONS, Report, batch, deterministic_id

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def elsewhere(monkeypatch):
    """Register a source `elsewhere`, which writes an audit entry as its only row."""

    def run(options, report):
        if not options["marker"]:
            raise SourceUnreadable("elsewhere has no file")
        with batch(report):
            call_command("audit", "--json", stdout=StringIO())
            AuditEntry.objects.create(
                at="2026-01-01T00:00Z", action="test.import", target=options["marker"]
            )
        report.count("rows", read=3, written=1, existing=1)
        report.skip("rows", "row 3", "it has no\ntext")
        report.no_counterpart("themes", "choose one in the studio")
        report.note("next: restart")

    source = types.SimpleNamespace(
        HELP="Test.",
        add_arguments=lambda parser: parser.add_argument("marker"),
        run=run,
    )
    monkeypatch.setitem(sources.SOURCES, "elsewhere", source)


@pytest.fixture
def marker():
    return f"import {uuid.uuid4()}"


def run(*arguments):
    out = StringIO()
    call_command("import", "elsewhere", *arguments, stdout=out)
    return out.getvalue()


def recorded(marker):
    return AuditEntry.objects.filter(action="test.import", target=marker).count()


def count_import_entries():
    return AuditEntry.objects.filter(action="import.run", target="elsewhere").count()


def test_report_is_a_table_and_the_import_is_recorded(elsewhere, marker):
    before = count_import_entries()
    assert run(marker).splitlines() == [
        "      read  written  already there  skipped",
        "rows     3        1              1        1",
        "skipped 1 rows: it has no text (row 3)",
        "no counterpart: themes: choose one in the studio",
        "next: restart",
    ]
    assert recorded(marker) == 1
    assert count_import_entries() == before + 1
    assert AuditEntry.objects.filter(action="import.run").last().details == {"rows": 1}


def test_dry_run_reports_the_same_and_writes_nothing(elsewhere, marker):
    before = count_import_entries()
    report = json.loads(run(marker, "--dry-run", "--json"))
    assert report["dry_run"] is True
    assert report["counts"] == {
        "rows": {"read": 3, "written": 1, "existing": 1, "skipped": 1}
    }
    assert report["skipped"][0]["examples"] == ["row 3"]
    assert recorded(marker) == 0
    assert count_import_entries() == before


def test_unreadable_source_is_an_error_of_the_command(elsewhere):
    with pytest.raises(CommandError, match="elsewhere has no file"):
        run("")


def test_skipped_rows_are_grouped_within_limits():
    report = Report("elsewhere")
    for number in range(MAX_REASONS + 5):
        report.skip("rows", f"row {number}", f"reason {number}")
    for number in range(9):
        report.skip("rows", f"row {number}", "reason 0")
    first, *_, last = report.skipped
    assert (first.count, len(first.examples)) == (10, 3)
    assert (last.reason, last.count) == ("other reasons", 5)
    assert report.counts["rows"].skipped == MAX_REASONS + 14


def test_same_source_ids_have_the_same_id():
    assert deterministic_id("chatgpt", "a") == deterministic_id("chatgpt", "a")
    assert deterministic_id("a", "bc") != deterministic_id("ab", "c")


def test_report_is_printed_without_a_database_for_its_audit(
    elsewhere, marker, monkeypatch
):
    def fail(event):
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(audit_log, "write", fail)
    errors = StringIO()
    out = StringIO()
    call_command("import", "elsewhere", marker, stdout=out, stderr=errors)
    assert "next: restart" in out.getvalue()
    assert "not in the audit log" in errors.getvalue()
