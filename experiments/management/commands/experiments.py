"""`coulisse experiments`: the state of experiments, and their winners."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.database_command import DatabaseCommand
from config.validation.suggestions import did_you_mean
from core.text import time_parsing
from experiments.comparison import comparison_report, result_text
from experiments.config import EXPERIMENTS


class Command(DatabaseCommand):
    """Prints one line per experiment, or the details of one."""

    help = "Show the traffic, the scores and the winner of experiments."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "name",
            metavar="NAME",
            nargs="?",
            help="Show the details of this experiment.",
        )
        parser.add_argument(
            "--since",
            help="Count turns and scores since then, such as 7d or 2026-11-01 "
            "(default: a bandit's window; all for others).",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        config = live.read_effective(self.config_path(options))
        experiments, name = config.get(EXPERIMENTS), options["name"]
        if name is not None and name not in experiments:
            raise CommandError(
                f"experiment '{name}' is not under experiments:"
                f"{did_you_mean(name, experiments)}"
            )
        since = None
        if options["since"] is not None:
            since = time_parsing.parse_past(options["since"], datetime.now(UTC))
        reports = [
            comparison_report.build_report(config, experiment, since)
            for experiment in experiments.values()
            if name in (None, experiment.name)
        ]
        if options["json"]:
            data = [report.model_dump(mode="json") for report in reports]
            self.write_json(
                {"object": "list", "data": data} if name is None else data[0]
            )
            return
        if not reports:
            self.write_note(
                "no experiments are configured; add them under experiments:"
            )
            return
        lines = (
            result_text.overview_lines(reports)
            if name is None
            else result_text.detail_lines(reports[0])
        )
        for line in lines:
            self.stdout.write(line)
