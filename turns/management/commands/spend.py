"""`manage.py spend`: what the recorded turns cost."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access import instants
from config import loader
from memory.command import MemoryCommand
from telemetry import spending
from telemetry.config import TELEMETRY
from turns import spent_lines

SINCE = "30d"


class Command(MemoryCommand):
    """Add up, and say what is missing on stderr."""

    help = "Show what was spent, by agent, user, token, model, provider or day."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--by", choices=spending.OF, default="agent")
        parser.add_argument(
            "--since",
            default=SINCE,
            help=f"How far back, such as 7d or 2026-11-01; {SINCE} by default.",
        )
        parser.add_argument("--json", action="store_true", help="Print it as JSON.")

    def handle(self, **options: Any) -> None:
        now = datetime.now(UTC)
        by, since = options["by"], instants.ago(options["since"], now)
        settings = loader.load(self.config_path(options)).get(TELEMETRY)
        spent = spending.by(by, since)
        total = spending.together(spent)
        missing = [*spent_lines.notes(since, spending.oldest(), settings, now)]
        if options["json"]:
            told = spent_lines.document(by, since, spent, total, missing)
            self.write_json(told)
            return
        names = spent_lines.names(by, spent)
        for line in spent_lines.table(by, spent, total, names):
            self.stdout.write(line)
        for note in missing:
            self.stderr.write(note)
