"""Report of scores, for the terminal and as JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core import money
from core.text import text_table
from core.text.sanitization import escape_invisible
from judges.ratings.feedback import FeedbackSummary
from judges.ratings.scores import ScoreSummary
from judges.runs.run_results import JudgingTally
from tasks.models import Task

SCORES = (
    "agent",
    "judge",
    "criterion",
    "scores",
    "mean",
    "std dev",
    "lowest",
    "highest",
)
FEEDBACK = ("agent", "scores", "mean", "thumbs up", "down", "comments")
TASKS = (
    "judge",
    "selected",
    "queued",
    "running",
    "done",
    "skipped",
    "failed",
    "cost",
)
MAX_ERROR = 300


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The data of the report."""

    scores: Sequence[ScoreSummary]
    feedback: Sequence[FeedbackSummary]
    tallies: Sequence[JudgingTally]


def report_lines(report: ScoreReport) -> Iterator[str]:
    """Yield tables: scores, feedback, and the state of judge tasks."""
    if not (report.scores or report.feedback or report.tallies):
        yield "no scores, feedback or judge tasks found"
        return
    if report.scores:
        rows = [_score_cells(summary) for summary in report.scores]
        yield from text_table.table_lines(SCORES, rows, right=range(3, len(SCORES)))
    if report.feedback:
        if report.scores:
            yield ""
        yield "user feedback:"
        rows = [_feedback_cells(summary) for summary in report.feedback]
        yield from text_table.table_lines(FEEDBACK, rows, right=range(1, len(FEEDBACK)))
    if report.tallies:
        if report.scores or report.feedback:
            yield ""
        yield "judge tasks:"
        rows = [_tally_cells(tally) for tally in report.tallies]
        yield from text_table.table_lines(TASKS, rows, right=range(1, len(TASKS)))
        for tally in report.tallies:
            yield from _problem_lines(tally)


def _score_cells(summary: ScoreSummary) -> list[str]:
    return [
        summary.agent,
        summary.judge,
        summary.criterion,
        f"{summary.stats.count:,}",
        f"{summary.stats.mean:.2f}",
        f"{_standard_deviation(summary):.2f}",
        f"{summary.lowest}",
        f"{summary.highest}",
    ]


def _standard_deviation(summary: ScoreSummary) -> float:
    """Return the standard deviation of the scores."""
    return math.sqrt(summary.stats.variance)


def _feedback_cells(summary: FeedbackSummary) -> list[str]:
    return [
        summary.agent,
        f"{summary.scores:,}",
        "-" if summary.mean is None else f"{summary.mean:.2f}",
        f"{summary.up:,}",
        f"{summary.down:,}",
        f"{summary.comments:,}",
    ]


def _tally_cells(tally: JudgingTally) -> list[str]:
    return [
        tally.judge,
        f"{tally.total:,}",
        f"{tally.queued:,}",
        f"{tally.running:,}",
        f"{tally.done:,}",
        f"{sum(tally.skipped.values()):,}",
        f"{tally.failed:,}",
        _format_cost(tally),
    ]


def _format_cost(tally: JudgingTally) -> str:
    if tally.unpriced and not tally.micro_usd:
        return "unknown"
    more = "+" if tally.unpriced else ""
    return f"${money.format_usd(tally.micro_usd)}{more}"


def _problem_lines(tally: JudgingTally) -> Iterator[str]:
    for reason, count in sorted(tally.skipped.items()):
        yield f"  {tally.judge}: {count:,} skipped: {reason}"
    for task in tally.failures:
        yield (
            f"  {tally.judge}: turn {task.turn_id} failed: "
            f"{escape_invisible(_format_error(task))}"
        )
    if tally.failed > len(tally.failures):
        yield f"  {tally.judge}: {tally.failed - len(tally.failures):,} more failed"


def _format_error(task: Task) -> str:
    return " ".join(task.error.split())[:MAX_ERROR]


def as_json(report: ScoreReport) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "object": "scores",
        "scores": [
            {
                "agent": summary.agent,
                "judge": summary.judge,
                "criterion": summary.criterion,
                "count": summary.stats.count,
                "mean": summary.stats.mean,
                "standard_deviation": _standard_deviation(summary),
                "lowest": summary.lowest,
                "highest": summary.highest,
            }
            for summary in report.scores
        ],
        "feedback": [
            {
                "agent": summary.agent,
                "scores": summary.scores,
                "mean": summary.mean,
                "up": summary.up,
                "down": summary.down,
                "comments": summary.comments,
            }
            for summary in report.feedback
        ],
        "judges": [_tally_as_json(tally) for tally in report.tallies],
    }


def _tally_as_json(tally: JudgingTally) -> dict[str, Any]:
    return {
        "judge": tally.judge,
        "selected": tally.total,
        "queued": tally.queued,
        "running": tally.running,
        "done": tally.done,
        "cancelled": tally.cancelled,
        "skipped": tally.skipped,
        "failed": tally.failed,
        "calls": tally.calls,
        "cost_usd": None if tally.unpriced else tally.micro_usd / 1_000_000,
        "failures": [
            {"turn_id": str(task.turn_id), "error": _format_error(task)}
            for task in tally.failures
        ],
    }
