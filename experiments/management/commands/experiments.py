"""`manage.py experiments`: the state of experiments, and their winners."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.database_command import DatabaseCommand
from config.validation.suggestions import did_you_mean
from core.text import time_parsing
from experiments.comparison import comparison_formats, comparison_report
from experiments.config import EXPERIMENTS


class Command(DatabaseCommand):
    """Prints all experiments in one line each, or one in full."""

    help = "Show how experiments go: traffic, scores, which variant is likely best."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "name", metavar="NAME", nargs="?", help="One experiment, in full."
        )
        parser.add_argument(
            "--since",
            help="Count turns and scores from then on, such as 7d or 2026-11-01; a "
            "bandit's window by default, else all there are.",
        )
        parser.add_argument("--json", action="store_true", help="Print it as JSON.")

    def handle(self, **options: Any) -> None:
        config = live.read_effective(self.config_path(options))
        found, name = config.get(EXPERIMENTS), options["name"]
        if name is not None and name not in found:
            raise CommandError(
                f"no experiment is called '{name}'{did_you_mean(name, found)}"
            )
        since = options["since"]
        begin = (
            None if since is None else time_parsing.parse_past(since, datetime.now(UTC))
        )
        reports = [
            comparison_report.build_report(config, experiment, begin)
            for experiment in found.values()
            if name in (None, experiment.name)
        ]
        if options["json"]:
            told = [comparison_formats.as_json(report) for report in reports]
            self.write_json(
                {"object": "list", "data": told} if name is None else told[0]
            )
            return
        if not reports:
            self.say("there are no experiments: write them under experiments:")
            return
        shown = (
            comparison_formats.overview_lines(reports)
            if name is None
            else comparison_formats.detail_lines(reports[0])
        )
        for line in shown:
            self.stdout.write(line)
