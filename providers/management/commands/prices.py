"""`manage.py prices`: the prices of the configured models."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.database_command import DatabaseCommand
from providers.pricing import price_table


class Command(DatabaseCommand):
    """List prices, and the models without a known price."""

    help = "Show what the configured models cost, in US dollars per million tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--check", action="store_true", help="Fail where a price is not known."
        )
        parser.add_argument("--json", action="store_true", help="Print it as JSON.")

    def handle(self, **options: Any) -> None:
        priced = price_table.list_models(live.read_effective(self.config_path(options)))
        if options["json"]:
            told = price_table.as_json(priced)
            self.write_json(told)
        else:
            for line in price_table.table_lines(priced):
                self.stdout.write(line)
        unknown = price_table.unpriced_models(priced)
        if unknown and options["check"]:
            raise CommandError(
                f"nobody knows what {', '.join(unknown)} costs: give the price under "
                "prices:"
            )
