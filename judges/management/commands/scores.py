"""`coulisse scores`: judges' scores of agents, and users' feedback."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from config.management.database_command import DatabaseCommand
from core.text import time_parsing
from judges.models import Feedback, JudgeTask, JudgingTally, Score
from judges.ratings import score_report
from judges.runs import judge_queue


class Command(DatabaseCommand):
    """Prints a report of scores."""

    help = (
        "Show scores by agent, judge and criterion, the feedback of users, and the "
        "state of judge tasks."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--agent", metavar="NAME", help="Only scores of this agent's replies."
        )
        parser.add_argument(
            "--judge", metavar="NAME", help="Only scores of this judge."
        )
        parser.add_argument(
            "--experiment", metavar="NAME", help="Only the variants of this experiment."
        )
        parser.add_argument(
            "--since",
            help="Start of the period, such as 7d or 2026-11-01 (default: all).",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        since = None
        if options["since"] is not None:
            since = time_parsing.parse_past(options["since"], datetime.now(UTC))
        agent, judge = options["agent"], options["judge"]
        experiment = options["experiment"]
        report = score_report.ScoreReport(
            Score.objects.filter_given(
                agent=agent, judge=judge, experiment=experiment, judged_at__gte=since
            ).summarize(),
            []
            if judge is not None
            else Feedback.objects.filter_given(
                agent=agent, experiment=experiment, created_at__gte=since
            ).summarize(),
            # The queue does not store experiments.
            [] if experiment is not None else _list_tallies(agent, judge, since),
        )
        if options["json"]:
            self.write_json(score_report.as_json(report))
            return
        for line in score_report.report_lines(report):
            self.stdout.write(line)


def _list_tallies(
    agent: str | None, judge: str | None, since: datetime | None
) -> list[JudgingTally]:
    tasks = JudgeTask.objects.filter(kind=judge_queue.KIND)
    if judge is not None:
        tasks = tasks.of_judges([judge])
    if agent is not None:
        tasks = tasks.filter(agent=agent)
    if since is not None:
        tasks = tasks.filter(created_at__gte=since)
    tallies: list[JudgingTally] = tasks.tally()
    return tallies
