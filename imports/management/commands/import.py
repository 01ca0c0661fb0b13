"""`coulisse import`: move data in from another system."""

from typing import Any

from django.core.management.base import CommandParser
from django.db import DatabaseError

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.management.progress_bar import ProgressBar
from imports.report import Report
from imports.sources import SOURCES


class Command(DatabaseCommand):
    """Runs one source, and prints its report."""

    help = (
        "Move data in from another system. A second run writes only what is new; "
        "--dry-run writes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser)
        for name, source in SOURCES.items():
            subparser = add(name, source.HELP)
            subparser.add_argument(
                "--dry-run", action="store_true", help="Report, and write nothing."
            )
            subparser.add_argument("--json", action="store_true", help="Print JSON.")
            source.add_arguments(subparser)

    _bar: ProgressBar | None = None

    def handle(self, **options: Any) -> None:
        name = options["what"]
        report = Report(name, is_dry_run=options["dry_run"], on_read=self._show)
        SOURCES[name].run({**options, "config": self.config_path(options)}, report)
        if self._bar is not None:
            self._bar.end()
        try:
            _record(report)
        except DatabaseError:
            # A configuration can be imported before there is a database.
            self.stderr.write("not in the audit log: the database has no tables yet")
        if options["json"]:
            self.write_json(report.as_json())
            return
        for line in report.lines():
            self.stdout.write(line)

    def _show(self, report: Report) -> None:
        if report.total and self.stderr.isatty():
            self._bar = self._bar or ProgressBar(self.stderr, report.total)
            self._bar.show(report.read)


def _record(report: Report) -> None:
    """Store an import that wrote something in the audit log."""
    written = {kind: each.written for kind, each in report.counts.items()}
    if report.is_dry_run or not any(written.values()):
        return
    actor = audit_events.terminal_actor()
    audit_log.write(AuditEvent("import.run", actor, report.source, written))
