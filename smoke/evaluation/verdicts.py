"""Closes runs when their replies are judged, or after a timeout."""

import uuid
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet

from judges.ratings import scores
from judges.runs import judge_queue
from smoke.config import SmokeTestConfig
from smoke.evaluation import expectations, tool_call_log
from smoke.evaluation.expectations import RunResult, ScoreMean
from smoke.models import SmokeMessage, SmokeRun
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.statistics.time_buckets import UnindexedColumn

SCORES_SECONDS = 600.0
"""How long a run waits for scores."""


def close_if_judged(run_id: uuid.UUID, *, now: datetime | None = None) -> bool:
    """Close a run if its replies are judged; return whether this call closed it."""
    now = now or datetime.now(UTC)
    run = SmokeRun.objects.filter(pk=run_id, state=SmokeRun.State.JUDGING).first()
    if run is None or (_awaits_scores(run) and not _is_late(run, now)):
        return False
    return _close(run, now)


def close_judged_runs(*, now: datetime | None = None) -> int:
    """Close all runs that can be closed; return how many."""
    now = now or datetime.now(UTC)
    found = SmokeRun.objects.filter(state=SmokeRun.State.JUDGING)
    tasks = Task.objects.alias(is_open=lifecycle.IS_OPEN).filter(
        kind=judge_queue.KIND, is_open=True
    )
    users = tasks.filter(user_id__in=found.values("user_id"))
    awaited = set(users.values_list("user_id", flat=True))
    return sum(
        close_if_judged(run.pk, now=now)
        for run in found.only("user_id", "ended_at")
        if run.user_id not in awaited or _is_late(run, now)
    )


def _judge_tasks(run: SmokeRun) -> QuerySet[Task]:
    # By the user's few tasks, not by all tasks of judges.
    tasks = Task.objects.alias(sort=UnindexedColumn("kind")).filter(
        sort=judge_queue.KIND
    )
    return tasks.filter(user_id=run.user_id)


def _awaits_scores(run: SmokeRun) -> bool:
    return _judge_tasks(run).filter(state__in=lifecycle.OPEN).exists()


def _is_late(run: SmokeRun, now: datetime) -> bool:
    timeout = timedelta(seconds=SCORES_SECONDS)
    return run.ended_at is not None and now >= run.ended_at + timeout


def _close(run: SmokeRun, now: datetime) -> bool:
    expect = SmokeTestConfig.model_validate(run.settings).expect
    result = _run_result(run)
    unmet = expectations.list_unmet(expect, result)
    verdict = SmokeRun.Verdict.FAILED if unmet else SmokeRun.Verdict.PASSED
    closed = SmokeRun.objects.filter(pk=run.pk, state=SmokeRun.State.JUDGING).update(
        state=SmokeRun.State.DONE,
        verdict=verdict,
        failures=unmet,
        scores={name: asdict(mean) for name, mean in result.scores.items()},
        unscored=dict(result.unscored),
        finished_at=now,
    )
    return bool(closed)


def expectation_results(run: SmokeRun) -> list[tuple[str, bool | None]]:
    """Return a run's expectations and whether each is met; None while it is open."""
    expect = SmokeTestConfig.model_validate(run.settings).expect
    found = expectations.check_expectations(expect, _run_result(run))
    if not run.verdict:
        return [(check.expectation, None) for check in found]
    # The scores as of its end: later ones do not count.
    return [(check.expectation, check.unmet not in run.failures) for check in found]


def _run_result(run: SmokeRun) -> RunResult:
    replies = list(
        run.messages.filter(speaker=SmokeMessage.Speaker.ASSISTANT).order_by("position")
    )
    return RunResult(
        replies=[each.text for each in replies],
        tools=tool_call_log.tool_names(call for each in replies for call in each.calls),
        stopped_because=run.stopped_because,
        cost_micro_usd=run.cost_micro_usd,
        scores=_mean_scores(
            each.turn_id for each in replies if each.turn_id is not None
        ),
        unscored=_unscored_judges(run),
    )


def _mean_scores(turn_ids: Iterable[uuid.UUID]) -> dict[str, ScoreMean]:
    values: dict[str, list[int]] = {}
    for score in scores.scores_of_turns(turn_ids):
        values.setdefault(f"{score.judge}.{score.criterion}", []).append(score.value)
    return {
        name: ScoreMean(sum(found) / len(found), len(found))
        for name, found in sorted(values.items())
    }


def _unscored_judges(run: SmokeRun) -> dict[str, str]:
    """Return why a judge has not scored every reply, by judge name."""
    prefix = judge_queue.task_origin("")
    reasons = {}
    for task in _judge_tasks(run).exclude(state=Task.State.DONE):
        timeout = f"not scored within {SCORES_SECONDS:.0f} seconds"
        reasons[task.origin.removeprefix(prefix)] = task.error or timeout
    return reasons
