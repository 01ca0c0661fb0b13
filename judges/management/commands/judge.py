"""`coulisse judge`: scores past replies."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management.base import INTERRUPTED
from config.management.database_command import DatabaseCommand, ask_confirmation
from config.management.progress_bar import ProgressBar
from config.sections import Config
from config.validation.named_lists import get_by_name
from core import money
from core.runtime import sigint
from core.text import time_parsing
from judges.config import JUDGES, JudgeConfig
from judges.errors import JudgeUnknown
from judges.models import JudgeTask
from judges.runs import judge_queue, past_replies
from judges.runs.past_replies import JudgingBacklog, PastReply
from tasks.models import CLOSED, OPEN, Task
from tasks.worker import local_worker

SINCE = "30d"
WINDOW = 100
"""Maximum open tasks. After an interruption the next worker finishes them."""


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
        judges = config.get(JUDGES)
        judge = get_by_name(
            options["judge"], judges, noun="judge", unknown=JudgeUnknown
        )
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
            past_replies.judged_agents(config, judge, options["agent"]),
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
            else f"about ${money.decimal_usd(estimate.micro_usd)}"
        )
        self.stdout.write(
            f"{work.total:,} to judge with '{judge.name}' ({judge.provider}/"
            f"{judge.model}): about {estimate.tokens:,} tokens, {cost}"
        )

    def _judge(self, work: "JudgingProgress") -> None:
        bar = ProgressBar(self.stderr, work.total)

        def watch() -> bool:
            work.advance()
            bar.show(work.finished)
            return work.is_finished

        with sigint.defer_sigint() as check_interrupt:
            try:
                local_worker.run_tasks([judge_queue.KIND], watch, check_interrupt)
            except KeyboardInterrupt as exc:
                message = f"interrupted: {work.summary()}; run it again to continue"
                raise CommandError(message, returncode=INTERRUPTED) from exc
        bar.end()
        self.stdout.write(work.summary())
        if work.failed:
            raise CommandError(
                f"{work.failed:,} could not be judged: `coulisse scores` shows why, "
                "--retry retries them"
            )


EnqueueReplies = Callable[[str, Sequence[PastReply]], list[JudgeTask]]
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
            *((reply, _open_tasks) for reply in backlog.in_progress),
            *((reply, past_replies.enqueue) for reply in backlog.pending),
            *((reply, _retry_failed) for reply in backlog.failed[:retries]),
        ]
        self._open: list[JudgeTask] = []
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

    def advance(self) -> None:
        """Count the tasks that have ended; enqueue more replies if there is room."""
        self._count_ended()
        room = WINDOW - len(self._open)
        if not self._waiting or room < WINDOW // 2:
            return
        batch, self._waiting = self._waiting[:room], self._waiting[room:]
        by_method: dict[EnqueueReplies, list[PastReply]] = {}
        for reply, enqueue in batch:
            by_method.setdefault(enqueue, []).append(reply)
        for enqueue, replies in by_method.items():
            tasks = enqueue(self._judge, replies)
            self._open += tasks
            # The cost of earlier attempts is not counted here.
            self.micro_usd -= sum(_cost(task) or 0 for task in tasks)

    def _count_ended(self) -> None:
        # Those of erased users are missing.
        tasks: Any = JudgeTask.objects.filter(pk__in=[task.pk for task in self._open])
        self._open = [task for task in tasks if task.is_open]
        for task in tasks:
            if task.state == Task.State.ERRORED:
                self.failed += 1
            elif task.state == Task.State.DONE:
                self.done += 1
            if task.state in CLOSED:
                cost = _cost(task)
                self.micro_usd += cost or 0
                self.unpriced += cost is None

    def summary(self) -> str:
        if self.unpriced:
            return f"{self.done:,} judged, cost unknown"
        return f"{self.done:,} judged, cost ${money.decimal_usd(self.micro_usd)}"


def check_options(options: dict[str, Any]) -> None:
    """Raise CommandError for invalid numbers."""
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError("--limit must be at least 1")
    if not 0 < options["sample"] <= 1:
        raise CommandError("--sample must be above 0 and at most 1")


def _cost(task: JudgeTask) -> int | None:
    """Return the cost of a task so far; None if unknown."""
    cost: int | None = task.receipt.get("cost_micro_usd", 0)
    return cost


def _open_tasks(judge: str, replies: Sequence[PastReply]) -> list[JudgeTask]:
    """Return the queued and running tasks."""
    tasks = JudgeTask.objects.of_replies(judge, [reply.turn_id for reply in replies])
    return list(tasks.filter(state__in=OPEN))


def _retry_failed(judge: str, replies: Sequence[PastReply]) -> list[JudgeTask]:
    """Requeue the failed tasks; return their earlier rows."""
    tasks = JudgeTask.objects.of_replies(judge, [reply.turn_id for reply in replies])
    rows = list(tasks.filter(state=Task.State.ERRORED))
    tasks.filter(pk__in=[row.pk for row in rows]).requeue()
    return rows
