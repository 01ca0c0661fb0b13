"""`coulisse prices`: the prices of the configured models."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.database_command import DatabaseCommand
from providers.pricing import price_table


class Command(DatabaseCommand):
    """List the prices of models, and the models without a known price."""

    help = "Show the prices of the configured models, in US dollars per million tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--check", action="store_true", help="Fail if a price is unknown."
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        priced = price_table.list_models(live.read_effective(self.config_path(options)))
        if options["json"]:
            self.write_json(price_table.as_json(priced))
        else:
            for line in price_table.table_lines(priced):
                self.stdout.write(line)
        unknown = price_table.unpriced_models(priced)
        if unknown and options["check"]:
            raise CommandError(
                f"no price is known for {', '.join(unknown)}; set it under prices:"
            )
