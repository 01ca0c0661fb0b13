"""`manage.py spend`: what the recorded turns cost."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from config.loading import loader
from config.management.database_command import DatabaseCommand
from core.text import time_parsing
from telemetry.config import TELEMETRY
from telemetry.presentation import spend_table
from telemetry.statistics import cost_totals

SINCE = "30d"


class Command(DatabaseCommand):
    """Add up, and say what is missing on stderr."""

    help = "Show what was spent, by agent, user, token, model, provider or day."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--by", choices=cost_totals.OF, default="agent")
        parser.add_argument(
            "--since",
            default=SINCE,
            help=f"How far back, such as 7d or 2026-11-01; {SINCE} by default.",
        )
        parser.add_argument("--json", action="store_true", help="Print it as JSON.")

    def handle(self, **options: Any) -> None:
        now = datetime.now(UTC)
        by, since = options["by"], time_parsing.ago(options["since"], now)
        settings = loader.load(self.config_path(options)).get(TELEMETRY)
        spent = cost_totals.by(by, since)
        total = cost_totals.together(spent)
        missing = [*spend_table.notes(since, cost_totals.oldest(), settings, now)]
        if options["json"]:
            told = spend_table.document(by, since, spent, total, missing)
            self.write_json(told)
            return
        names = spend_table.names(by, spent)
        for line in spend_table.table(by, spent, total, names):
            self.stdout.write(line)
        for note in missing:
            self.stderr.write(note)
