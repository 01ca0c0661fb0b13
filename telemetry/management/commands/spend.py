"""`coulisse spend`: costs of recorded turns."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from config.loading import loader
from config.management.database_command import DatabaseCommand
from core.text import time_parsing
from telemetry.config import TELEMETRY
from telemetry.presentation import spend_table
from telemetry.presentation.spend_schemas import Spending
from telemetry.statistics import cost_totals

SINCE = "30d"


class Command(DatabaseCommand):
    """Prints the totals; missing data is reported on stderr."""

    help = "Show costs by agent, user, token, model, provider or day."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--by", choices=cost_totals.DIMENSIONS, default="agent")
        parser.add_argument(
            "--since",
            default=SINCE,
            help=f"Start of the period, such as 7d or 2026-11-01 (default: {SINCE}).",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        now = datetime.now(UTC)
        by, since = options["by"], time_parsing.parse_past(options["since"], now)
        config = loader.load_file(self.config_path(options))
        settings = config.get(TELEMETRY)
        totals = cost_totals.totals_by(by, since, config=config)
        oldest = cost_totals.oldest_turn_at()
        notes = list(spend_table.notes(since, oldest, settings, now))
        if options["json"]:
            self.write_json(Spending.serialize_totals(by, since, totals, notes))
            return
        names = spend_table.token_names(by, totals)
        for line in spend_table.table_lines(by, totals, names):
            self.stdout.write(line)
        for note in notes:
            self.stderr.write(note)
