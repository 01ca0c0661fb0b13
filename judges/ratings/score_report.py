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
        rows = [_score_cells(line) for line in report.scores]
        yield from text_table.table_lines(SCORES, rows, right=range(3, len(SCORES)))
    if report.feedback:
        if report.scores:
            yield ""
        yield "user feedback:"
        rows = [_feedback_cells(opinion) for opinion in report.feedback]
        yield from text_table.table_lines(FEEDBACK, rows, right=range(1, len(FEEDBACK)))
    if report.tallies:
        if report.scores or report.feedback:
            yield ""
        yield "judge tasks:"
        rows = [_tally_cells(tally) for tally in report.tallies]
        yield from text_table.table_lines(TASKS, rows, right=range(1, len(TASKS)))
        for tally in report.tallies:
            yield from _skip_reasons(tally)


def _score_cells(line: ScoreSummary) -> list[str]:
    return [
        *(line.agent, line.judge, line.criterion, f"{line.stats.count:,}"),
        *(f"{line.stats.mean:.2f}", f"{_standard_deviation(line):.2f}"),
        *(f"{line.lowest}", f"{line.highest}"),
    ]


def _standard_deviation(line: ScoreSummary) -> float:
    """Return the standard deviation of the scores."""
    return math.sqrt(line.stats.variance)


def _feedback_cells(opinion: FeedbackSummary) -> list[str]:
    mean = "-" if opinion.mean is None else f"{opinion.mean:.2f}"
    counts = (opinion.up, opinion.down, opinion.comments)
    return [
        *(opinion.agent, f"{opinion.scores:,}", mean),
        *(f"{count:,}" for count in counts),
    ]


def _tally_cells(tally: JudgingTally) -> list[str]:
    counts = (tally.total, tally.queued, tally.running, tally.done)
    return [
        *(tally.judge, *(f"{count:,}" for count in counts)),
        *(f"{sum(tally.skipped.values()):,}", f"{tally.failed:,}", _format_cost(tally)),
    ]


def _format_cost(tally: JudgingTally) -> str:
    if tally.unpriced and not tally.micro_usd:
        return "unknown"
    doubt = "+" if tally.unpriced else ""
    return f"${money.format_usd(tally.micro_usd)}{doubt}"


def _skip_reasons(tally: JudgingTally) -> Iterator[str]:
    for why, count in sorted(tally.skipped.items()):
        yield f"  {tally.judge}: {count:,} skipped: {why}"
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
                "agent": line.agent,
                "judge": line.judge,
                "criterion": line.criterion,
                "count": line.stats.count,
                "mean": line.stats.mean,
                "standard_deviation": _standard_deviation(line),
                "lowest": line.lowest,
                "highest": line.highest,
            }
            for line in report.scores
        ],
        "feedback": [
            {
                "agent": opinion.agent,
                "scores": opinion.scores,
                "mean": opinion.mean,
                "up": opinion.up,
                "down": opinion.down,
                "comments": opinion.comments,
            }
            for opinion in report.feedback
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
