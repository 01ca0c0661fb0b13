"""Report of scores, for the terminal and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core import money
from core.text import text_table
from core.text.sanitization import escape_invisible
from judges.models import JudgeTask, JudgingTally

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
    """The data of the report, from the QuerySets of scores, feedback and tasks."""

    scores: Sequence[dict[str, Any]]
    feedback: Sequence[dict[str, Any]]
    tallies: Sequence[JudgingTally]


def report_lines(report: ScoreReport) -> Iterator[str]:
    """Yield tables: scores, feedback, and the state of judge tasks."""
    if not (report.scores or report.feedback or report.tallies):
        yield "no scores, feedback or judge tasks found"
        return
    tables = [
        ("", SCORES, 3, list(map(_score_cells, report.scores))),
        ("user feedback:", FEEDBACK, 1, list(map(_feedback_cells, report.feedback))),
        ("judge tasks:", TASKS, 1, list(map(_tally_cells, report.tallies))),
    ]
    filled = [table for table in tables if table[-1]]
    for number, (title, header, first, rows) in enumerate(filled):
        if number:
            yield ""
        if title:
            yield title
        yield from text_table.table_lines(header, rows, right=range(first, len(header)))
    for tally in report.tallies:
        yield from _problem_lines(tally)


def _score_cells(summary: dict[str, Any]) -> list[str]:
    return [
        summary["agent"],
        summary["judge"],
        summary["criterion"],
        f"{summary['count']:,}",
        f"{summary['mean']:.2f}",
        f"{summary['standard_deviation']:.2f}",
        f"{summary['lowest']}",
        f"{summary['highest']}",
    ]


def _feedback_cells(summary: dict[str, Any]) -> list[str]:
    mean = summary["mean"]
    return [
        summary["agent"],
        f"{summary['scores']:,}",
        "-" if mean is None else f"{mean:.2f}",
        *(f"{summary[name]:,}" for name in ("up", "down", "comments")),
    ]


def _tally_cells(tally: JudgingTally) -> list[str]:
    counts = tally.selected, tally.queued, tally.running, tally.done
    ended = sum(tally.skipped.values()), tally.failed
    return [
        tally.judge,
        *(f"{count:,}" for count in (*counts, *ended)),
        _format_cost(tally),
    ]


def _format_cost(tally: JudgingTally) -> str:
    if tally.unpriced and not tally.micro_usd:
        return "unknown"
    more = "+" if tally.unpriced else ""
    return f"${money.decimal_usd(tally.micro_usd)}{more}"


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


def _format_error(task: JudgeTask) -> str:
    return " ".join(task.error.split())[:MAX_ERROR]


def as_json(report: ScoreReport) -> dict[str, Any]:
    return {
        "object": "scores",
        "scores": report.scores,
        "feedback": report.feedback,
        "judges": [_tally_as_json(tally) for tally in report.tallies],
    }


def _tally_as_json(tally: JudgingTally) -> dict[str, Any]:
    return {
        **tally.model_dump(exclude={"micro_usd", "unpriced", "failures"}),
        "cost_usd": None if tally.unpriced else tally.micro_usd / 1_000_000,
        "failures": [
            {"turn_id": str(task.turn_id), "error": _format_error(task)}
            for task in tally.failures
        ],
    }
