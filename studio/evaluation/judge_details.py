"""Additional data of judges' pages, besides their configuration."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from config import live
from core.ids import UserId
from core.text import redaction
from judges.config import JUDGES, JudgeConfig
from judges.models import Feedback, Score
from judges.ratings import feedback, score_windows
from judges.ratings.score_windows import LONGEST_WINDOW, WINDOWS, ScoreWindow
from judges.runs import backfill, task_status
from smoke.reports import run_queries
from tasks.models import Task
from telemetry.storage import costs

WEEK = timedelta(days=7)
SCORES_SHOWN = 10
FAILURES_SHOWN = 5
COMMENTS_SHOWN = 5
MONTH = WINDOWS[LONGEST_WINDOW]


def load_overview() -> Mapping[str, Any]:
    """Return each judge's scores and failures of the last week; in two queries."""
    names, since = live.current().get(JUDGES).keys(), datetime.now(UTC) - WEEK
    means = score_windows.mean_scores(names, since)
    failed = task_status.count_failed(names, since)
    return {
        name: {
            "count": means.get(name, (0, None))[0],
            "mean": means.get(name, (0, None))[1],
            "failed": failed.get(name, 0),
        }
        for name in names
    }


def load_details(name: str, judge: JudgeConfig | None) -> Mapping[str, Any]:
    """Return a judge's scores, by agent, with its failures and costs."""
    now = datetime.now(UTC)
    scores = score_windows.load_month(name, now)
    agents = backfill.agents_naming(live.current(), name)
    counts = task_status.count_tasks(name, now - WEEK)
    since_by_window = {window: now - span for window, span in WINDOWS.items()}
    return {
        "means": [
            {"criterion": criterion, **_serialize_windows(windows)}
            for criterion, windows in scores.by_criterion.items()
        ],
        "by_agent": [
            {
                "agent": each.agent,
                "criterion": each.criterion,
                **_serialize_windows(each.windows),
            }
            for each in scores.by_agent
        ],
        "days": [
            {
                "day": each.day,
                "criterion": each.criterion,
                "mean": each.scores.mean,
                "count": each.scores.count,
            }
            for each in scores.by_day
        ],
        "counts": {**asdict(counts), "selected": counts.total},
        "costs": {
            window: asdict(cost)
            for window, cost in costs.judge_costs(name, since_by_window).items()
        },
        "failures": [
            serialize_failure(task)
            for task in task_status.failed_tasks(name, FAILURES_SHOWN)
        ],
        "recent": serialize_scores(
            score_windows.page_judge_scores(name, limit=SCORES_SHOWN)[0]
        ),
        "judged_agents": agents,
        "feedback": [
            asdict(each)
            for each in feedback.summarize_feedback(agents=agents, since=now - MONTH)
        ],
        "comments": [
            serialize_comment(row)
            for row in feedback.list_comments(
                agents, since=now - MONTH, limit=COMMENTS_SHOWN
            )
        ],
    }


def _serialize_windows(windows: Mapping[str, ScoreWindow]) -> dict[str, Any]:
    return {
        "windows": {
            name: {"mean": window.mean, "count": window.count}
            for name, window in windows.items()
        }
    }


def serialize_scores(rows: Sequence[Score]) -> list[dict[str, Any]]:
    """Return scores, each with its smoke run, if any."""
    runs = _runs_by_user(rows)
    return [
        {
            "turn_id": str(row.turn_id),
            "run_id": runs.get(UserId(row.user_id)),
            "user_id": str(row.user_id),
            "criterion": row.criterion,
            "value": row.value,
            "reasoning": row.reasoning or None,
            "agent": row.agent,
            "experiment": row.experiment or None,
            "origin": row.origin,
            "judged_at": row.judged_at,
        }
        for row in rows
    ]


def _runs_by_user(rows: Collection[Score]) -> Mapping[UserId, str]:
    users = {UserId(r.user_id) for r in rows if r.origin == Score.Origin.SMOKE}
    runs = run_queries.runs_of_users(users)
    return {user_id: str(run_id) for user_id, run_id in runs.items()}


def serialize_failure(task: Task) -> dict[str, Any]:
    """Return a failed judging."""
    return {
        "task_id": str(task.pk),
        "turn_id": None if task.turn_id is None else str(task.turn_id),
        "agent": task.agent,
        "error": task.error,
        "failed_at": task.finished_at,
    }


def serialize_comment(row: Feedback) -> dict[str, Any]:
    """Return a user's comment on a reply."""
    return {
        "turn_id": str(row.turn_id),
        "agent": row.agent,
        "score": row.score,
        "thumb": row.thumb,
        "comment": redaction.redact_own(row.comment),
        "updated_at": row.updated_at,
    }
