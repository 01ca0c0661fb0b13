"""`manage.py judge`: scores past replies."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.database_command import (
    INTERRUPTED,
    DatabaseCommand,
    ask_confirmation,
)
from config.management.progress_bar import ProgressBar
from config.sections import Config
from config.validation.suggestions import did_you_mean
from core import money
from core.runtime import sigint
from core.text import time_parsing
from judges.config import JUDGES, JudgeConfig
from judges.runs import backfill, judge_queue, past_replies, run_results
from judges.runs.past_replies import JudgingBacklog, PastReply
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.worker.service import WorkerService

SINCE = "30d"
WINDOW = 100
"""Maximum open tasks. After an interruption the next worker finishes them."""
POLL_SECONDS = 0.05


class Command(DatabaseCommand):
    """Counts replies, estimates the cost, asks for confirmation, and judges."""

    help = (
        "Score past replies with a judge. Shows their number and the estimated cost "
        "first. Can be interrupted and run again. Exits with 1 if any reply failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--judge", required=True, metavar="NAME", help="The judge.")
        parser.add_argument(
            "--since",
            default=SINCE,
            help=f"Start of the period, such as 7d or 2026-11-01 (default: {SINCE}).",
        )
        parser.add_argument("--until", help="End of the period (default: now).")
        parser.add_argument(
            "--agent",
            metavar="NAME",
            help="The agent whose replies are judged (default: all agents that "
            "list the judge).",
        )
        parser.add_argument(
            "--limit", type=int, metavar="N", help="Judge only the newest N replies."
        )
        parser.add_argument(
            "--sample",
            type=float,
            default=1.0,
            metavar="SHARE",
            help="The share of replies to judge, from 0 to 1 (default: 1).",
        )
        parser.add_argument(
            "--retry", action="store_true", help="Include replies that failed before."
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Only show the number and the cost."
        )
        parser.add_argument(
            "-y", "--yes", action="store_true", help="Judge without confirmation."
        )

    def handle(self, **options: Any) -> None:
        check_options(options)
        config = live.current()
        judge = _find_judge(config, options["judge"])
        backlog = self._find(config, judge, options)
        if not options["retry"]:
            retries = 0
        elif options["limit"] is None:
            retries = len(backlog.failed)
        else:
            retries = options["limit"] - len(backlog.pending)
        work = JudgingProgress(judge.name, backlog, retries=retries)
        self._print_plan(config, judge, backlog, work)
        if options["dry_run"] or work.is_finished:
            return
        if not options["yes"] and not ask_confirmation("judge"):
            self.stdout.write("nothing was judged")
            return
        self._judge(work)

    def _find(
        self, config: Config, judge: JudgeConfig, options: dict[str, Any]
    ) -> JudgingBacklog:
        now = datetime.now(UTC)
        until = options["until"]
        return past_replies.find_backlog(
            judge.name,
            _find_agents(config, judge, options["agent"]),
            since=time_parsing.parse_past(options["since"], now),
            until=None if until is None else time_parsing.parse_past(until, now),
            share=options["sample"],
            limit=options["limit"],
        )

    def _print_plan(
        self,
        config: Config,
        judge: JudgeConfig,
        backlog: JudgingBacklog,
        work: "JudgingProgress",
    ) -> None:
        self.stdout.write(
            f"{backlog.found:,} replies: {backlog.judged:,} already judged, "
            f"{len(backlog.in_progress):,} in progress, {backlog.skipped:,} skipped, "
            f"{len(backlog.failed):,} failed"
        )
        if work.is_finished:
            hint = "; --retry includes the failed ones" if backlog.failed else ""
            self.stdout.write(f"nothing to judge{hint}")
            return
        estimate = past_replies.estimate_cost(config, judge, work.replies)
        cost = (
            "cost unknown (add a price under prices:)"
            if estimate.micro_usd is None
            else f"about ${money.format_usd(estimate.micro_usd)}"
        )
        self.stdout.write(
            f"{work.total:,} to judge with '{judge.name}' ({judge.provider}/"
            f"{judge.model}): about {estimate.tokens:,} tokens, {cost}"
        )

    def _judge(self, work: "JudgingProgress") -> None:
        service = WorkerService(only=[judge_queue.KIND])
        bar = ProgressBar(self.stderr, work.total)
        with sigint.defer_sigint() as check_interrupt:
            service.start()
            try:
                while not work.is_finished:
                    check_interrupt()
                    if work.add():
                        service.check_queue()
                    time.sleep(POLL_SECONDS)
                    work.refresh()
                    bar.show(work.finished)
                bar.end()
            except KeyboardInterrupt as exc:
                message = f"interrupted: {work.summary()}; run it again to continue"
                raise CommandError(message, returncode=INTERRUPTED) from exc
            finally:
                service.stop()
        self.stdout.write(work.summary())
        if work.failed:
            raise CommandError(
                f"{work.failed:,} could not be judged: `manage.py scores` shows why, "
                "--retry retries them"
            )


EnqueueReplies = Callable[[str, Sequence[PastReply]], list[Task]]
"""Enqueues replies, and returns their rows."""


class JudgingProgress:
    """Progress of replies through the queue, with a limited number at a time."""

    def __init__(self, judge: str, backlog: JudgingBacklog, *, retries: int) -> None:
        """Includes the newest `retries` replies that failed before."""
        self.done = 0
        self.failed = 0
        self.micro_usd = 0
        self.unpriced = 0
        """Tasks whose cost is unknown."""
        self._judge = judge
        self._waiting: list[tuple[PastReply, EnqueueReplies]] = [
            *((reply, past_replies.unfinished_tasks) for reply in backlog.in_progress),
            *((reply, past_replies.enqueue) for reply in backlog.pending),
            *((reply, past_replies.retry_failed) for reply in backlog.failed[:retries]),
        ]
        self._open: list[Task] = []
        self.total = len(self._waiting)

    @property
    def replies(self) -> list[PastReply]:
        """Replies that this command has not enqueued yet."""
        return [reply for reply, _ in self._waiting]

    @property
    def finished(self) -> int:
        """The number of replies that are done, failed or skipped."""
        return self.total - len(self._waiting) - len(self._open)

    @property
    def is_finished(self) -> bool:
        return not (self._waiting or self._open)

    def add(self) -> bool:
        """Enqueue more replies if there is room; return whether there were any."""
        room = WINDOW - len(self._open)
        if not self._waiting or room < WINDOW // 2:
            return False
        batch, self._waiting = self._waiting[:room], self._waiting[room:]
        by_method: dict[EnqueueReplies, list[PastReply]] = {}
        for reply, enqueue in batch:
            by_method.setdefault(enqueue, []).append(reply)
        for enqueue, replies in by_method.items():
            tasks = enqueue(self._judge, replies)
            self._open += tasks
            # The cost of earlier attempts is not counted here.
            costs = (run_results.read_result(task).cost_micro_usd for task in tasks)
            self.micro_usd -= sum(filter(None, costs))
        return True

    def refresh(self) -> None:
        """Update the tasks that have ended."""
        tasks = past_replies.reload_tasks(self._open)
        self._open = [task for task in tasks if task.state in lifecycle.OPEN]
        for task in tasks:
            if task.state == Task.State.ERRORED:
                self.failed += 1
            elif task.state == Task.State.DONE:
                self.done += 1
            if task.state in lifecycle.CLOSED:
                cost = run_results.read_result(task).cost_micro_usd
                self.micro_usd += cost or 0
                self.unpriced += cost is None

    def summary(self) -> str:
        """Return the results so far."""
        if self.unpriced:
            return f"{self.done:,} judged, cost unknown"
        return f"{self.done:,} judged, cost ${money.format_usd(self.micro_usd)}"


def check_options(options: dict[str, Any]) -> None:
    """Raise CommandError for invalid numbers."""
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError("--limit must be at least 1")
    if not 0 < options["sample"] <= 1:
        raise CommandError("--sample must be above 0 and at most 1")


def _find_judge(config: Config, name: str) -> JudgeConfig:
    """Return a judge by its name; raises CommandError."""
    judges = config.get(JUDGES)
    if name not in judges:
        raise CommandError(
            f"judge '{name}' is not under judges:{did_you_mean(name, judges)}"
        )
    return judges[name]


def _find_agents(config: Config, judge: JudgeConfig, name: str | None) -> list[str]:
    """Return the agents whose replies are judged; raises CommandError if none."""
    if name is not None:
        # A removed agent may be judged, too.
        return [name]
    agents = backfill.agents_naming(config, judge.name)
    if not agents:
        raise CommandError(
            f"no agent lists judge '{judge.name}' under judges:; choose the agent "
            "whose replies it scores with --agent"
        )
    return agents
