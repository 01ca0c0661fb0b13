"""Additional data of judges' pages, besides their configuration."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count

from admin_base.model_admin import redact_row
from admin_base.serializers import serialize
from config import live
from judges.config import JUDGES, JudgeConfig
from judges.models import Feedback, JudgeTask, JudgingCounts, Score
from judges.models.scores import LONGEST_WINDOW, WINDOWS
from judges.runs import judge_queue, past_replies
from judges.schemas import FailedJudging, StudioFeedback, StudioScore
from smoke.models import SmokeRun
from telemetry.models import Origin
from telemetry.storage import costs

WEEK = timedelta(days=7)
SCORES_SHOWN = 10
FAILURES_SHOWN = 5
COMMENTS_SHOWN = 5


def load_overview() -> Mapping[str, Any]:
    """Return each judge's scores and failures of the last week; in two queries."""
    names, since = live.current().get(JUDGES).keys(), datetime.now(UTC) - WEEK
    recent = Score.objects.filter(judge__in=names, judged_at__gte=since)
    means, empty = recent.means_by_judge(), {"count": 0, "mean": None}
    tasks = JudgeTask.objects.failed_of(names).filter(created_at__gte=since)
    failed = tasks.order_by().values_list("origin").annotate(Count("pk"))
    by_judge = {judge_queue.judge_of_origin(origin): count for origin, count in failed}
    return {
        name: {**means.get(name, empty), "failed": by_judge.get(name, 0)}
        for name in names
    }


def load_details(name: str, judge: JudgeConfig | None) -> Mapping[str, Any]:
    """Return a judge's scores, by agent, with its failures and costs."""
    now = datetime.now(UTC)
    scores = Score.objects.filter(judge=name)
    agents = past_replies.agents_naming(live.current(), name)
    week = JudgeTask.objects.of_judges([name]).filter(created_at__gte=now - WEEK)
    failed = JudgeTask.objects.failed_of([name]).defer("prompt", "payload", "result")
    since_by_window = {window: now - span for window, span in WINDOWS.items()}
    month = since_by_window[LONGEST_WINDOW]
    feedback = Feedback.objects.filter(agent__in=agents, created_at__gte=month)
    return {
        **scores.month(now),
        "counts": week.count_by_judge().get(name, JudgingCounts()).model_dump(),
        "costs": costs.judge_costs(name, since_by_window),
        "failures": [
            serialize(FailedJudging, task) for task in failed[:FAILURES_SHOWN]
        ],
        "recent": [
            serialize(StudioScore, row)
            for row in link_smoke_runs(list(scores.newest_first()[:SCORES_SHOWN]))
        ],
        "judged_agents": agents,
        "feedback": feedback.summarize(),
        "comments": [
            serialize(StudioFeedback, redact_row(row))
            for row in feedback.with_comment()[:COMMENTS_SHOWN]
        ],
    }


def link_smoke_runs(scores: list[Score]) -> list[Score]:
    """Set the `run_id` of each score of a smoke run; None for others."""
    rows: list[Any] = scores
    users = {row.user_id for row in rows if row.origin == Origin.SMOKE}
    runs = SmokeRun.objects.ids_by_user(users) if users else {}
    for row in rows:
        row.run_id = runs.get(row.user_id)
    return scores
