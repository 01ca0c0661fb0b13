"""Handler of judge tasks: reads the reply, asks the model, and stores scores."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import orjson

from config import live
from core.errors import CoulisseError
from database import database_executor
from judges.config import JUDGES, JudgeConfig
from judges.errors import JudgeResultUnreadable
from judges.ratings.scores import JudgedReply
from judges.runs import judge_queue, persistence
from judges.scoring import runner
from judges.scoring.judge_context import JudgeContext
from judges.scoring.runner import JudgingCost
from judges.scoring.verdict_parser import JudgeResult
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskKind, TaskOutcome
from tasks.worker import retry_policy
from telemetry.storage.costs import JudgeExpense

logger = logging.getLogger(__name__)

NOT_CONFIGURED = "the judge is no longer configured"
NOT_STORED = "the turn is not stored"


async def run(task: ClaimedTask) -> TaskOutcome:
    """Score one reply; an unreadable answer fails the task without a retry."""
    config = live.current()
    judge = config.get(JUDGES).get(task.payload["judge"])
    # The receipt includes the cost of earlier attempts.
    before = await _earlier_cost(task)
    if judge is None:
        return _close_skipped(task, NOT_CONFIGURED, before)
    material = await _load_context(task)
    if material is None:
        return _close_skipped(task, NOT_STORED, before)
    bill = JudgingCost()
    try:
        verdicts = await runner.ask_judge(
            config, judge, material, user=task.user_id.hex, bill=bill
        )
    except CoulisseError as exc:
        # The runner has already asked a second time.
        is_read = not isinstance(exc, JudgeResultUnreadable)
        is_final = not (is_read and retry_policy.is_retryable(exc))
        receipt, paid = (
            _format_result(judge, before + bill, {}),
            _cost_record(judge, task, bill),
        )
        await database_executor.run_to_end(
            persistence.store_failure, task, exc, receipt, paid, is_final=is_final
        )
        # Without the answer's text: it may quote the model, and the model the user.
        logger.warning(
            "judge '%s' did not score turn %s: %s", judge.name, task.turn_id, exc.code
        )
        return TaskOutcome(is_closed=True)
    return TaskOutcome(
        _format_result(judge, before + bill, verdicts),
        partial(
            persistence.store_scores,
            _scored_reply(task),
            verdicts,
            _cost_record(judge, task, bill),
        ),
    )


async def _earlier_cost(task: ClaimedTask) -> JudgingCost:
    return (
        await database_executor.run(persistence.read_cost, task)
        if task.attempts > 1
        else JudgingCost()
    )


async def _load_context(task: ClaimedTask) -> JudgeContext | None:
    told = task.payload.get("material")
    if told is not None:
        return JudgeContext.from_json(told)
    return await database_executor.run(
        persistence.load_context, task.user_id, task.turn_id
    )


def _scored_reply(task: ClaimedTask) -> JudgedReply:
    if task.turn_id is None:
        raise LookupError("a judge task needs a turn_id")
    return JudgedReply(
        task.turn_id,
        task.user_id,
        task.payload["judge"],
        task.agent,
        task.payload.get("experiment", ""),
        task.payload.get("origin", "chat"),
    )


def _cost_record(
    judge: JudgeConfig, task: ClaimedTask, bill: JudgingCost
) -> JudgeExpense:
    return JudgeExpense(
        *(judge.name, task.agent, judge.provider, judge.model),
        *(bill.calls, bill.usage, bill.cost_micro_usd),
    )


def _close_skipped(task: ClaimedTask, why: str, before: JudgingCost) -> TaskOutcome:
    told = {"judge": task.payload["judge"], "skipped": why}
    return TaskOutcome(orjson.dumps(told | _cost_as_json(before)).decode())


def _format_result(
    judge: JudgeConfig, bill: JudgingCost, verdicts: Mapping[str, JudgeResult]
) -> str:
    """Return a task's receipt: what was asked, the cost, and the scores.

    Without the reasons, which are in the rows of the scores.
    """
    told: dict[str, Any] = {
        "judge": judge.name,
        "provider": judge.provider,
        "model": judge.model,
        **_cost_as_json(bill),
        "scores": {name: verdict.score for name, verdict in verdicts.items()},
    }
    return orjson.dumps(told).decode()


def _cost_as_json(bill: JudgingCost) -> dict[str, Any]:
    return {
        "calls": bill.calls,
        "usage": asdict(bill.usage),
        "cost_micro_usd": bill.cost_micro_usd,
    }


KIND = TaskKind(
    judge_queue.KIND, run, max_failures=judge_queue.MAX_FAILURES, is_background=True
)
