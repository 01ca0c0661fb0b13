"""`manage.py scores`: judges' scores of agents, and users' feedback."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from config.management.database_command import DatabaseCommand
from core.text import time_parsing
from judges.ratings import feedback, score_report, scores
from judges.runs import run_results


class Command(DatabaseCommand):
    """Prints a report of scores."""

    help = (
        "Show the scores of agents' replies by judge and criterion, what people said, "
        "and what became of the replies that fell to judges."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agent", metavar="NAME", help="Only this agent's.")
        parser.add_argument("--judge", metavar="NAME", help="Only this judge's.")
        parser.add_argument(
            "--experiment", metavar="NAME", help="Only of this one's variants."
        )
        parser.add_argument(
            "--since", help="How far back, such as 7d or 2026-11-01; all by default."
        )
        parser.add_argument("--json", action="store_true", help="Print it as JSON.")

    def handle(self, **options: Any) -> None:
        since = options["since"]
        since = (
            None if since is None else time_parsing.parse_past(since, datetime.now(UTC))
        )
        agent, judge = options["agent"], options["judge"]
        experiment = options["experiment"]
        report = score_report.ScoreReport(
            scores.summarize_scores(
                agent=agent, judge=judge, experiment=experiment, since=since
            ),
            []
            if judge is not None
            else feedback.summarize_feedback(
                agent=agent, experiment=experiment, since=since
            ),
            # The queue does not store experiments.
            []
            if experiment is not None
            else run_results.list_tallies(agent=agent, judge=judge, since=since),
        )
        if options["json"]:
            self.write_json(score_report.as_json(report))
            return
        for line in score_report.report_lines(report):
            self.stdout.write(line)
