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
from judges.runs import persistence
from judges.scoring import runner
from judges.scoring.judge_context import JudgeContext
from judges.scoring.runner import JudgingCost
from judges.scoring.verdict_parser import JudgeResult
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome
from tasks.worker import retry_policy
from telemetry.storage.costs import CallExpense

logger = logging.getLogger(__name__)

NOT_CONFIGURED = "the judge is no longer configured"
NOT_STORED = "the turn is not stored"


async def run(task: ClaimedTask) -> TaskOutcome:
    """Score one reply; an unreadable answer fails the task without a retry."""
    config = live.current()
    judge = config.get(JUDGES).get(task.payload["judge"])
    # The receipt includes the cost of earlier attempts.
    earlier_cost = await _earlier_cost(task)
    if judge is None:
        return _close_skipped(task, NOT_CONFIGURED, earlier_cost)
    context = await _load_context(task)
    if context is None:
        return _close_skipped(task, NOT_STORED, earlier_cost)
    cost = JudgingCost()
    try:
        results = await runner.ask_judge(
            config, judge, context, user=task.user_id.hex, cost=cost
        )
    except CoulisseError as exc:
        # The runner has already asked a second time after an unreadable answer.
        is_final = isinstance(
            exc, JudgeResultUnreadable
        ) or not retry_policy.is_retryable(exc)
        await database_executor.run_to_end(
            persistence.store_failure,
            task,
            exc,
            _format_receipt(judge, earlier_cost + cost, {}),
            _build_expense(judge, task, cost),
            is_final=is_final,
        )
        # Without the answer's text: it may quote the model, and the model the user.
        logger.warning(
            "judge '%s' did not score turn %s: %s", judge.name, task.turn_id, exc.code
        )
        return TaskOutcome(is_closed=True)
    return TaskOutcome(
        _format_receipt(judge, earlier_cost + cost, results),
        partial(
            persistence.store_scores,
            task,
            results,
            _build_expense(judge, task, cost),
        ),
    )


async def _earlier_cost(task: ClaimedTask) -> JudgingCost:
    return (
        await database_executor.run(persistence.read_cost, task)
        if task.attempts > 1
        else JudgingCost()
    )


async def _load_context(task: ClaimedTask) -> JudgeContext | None:
    payload = task.payload.get("context")
    if payload is not None:
        return JudgeContext.from_json(payload)
    return await database_executor.run(
        persistence.load_context, task.user_id, task.turn_id
    )


def _build_expense(
    judge: JudgeConfig, task: ClaimedTask, cost: JudgingCost
) -> CallExpense:
    return CallExpense(
        judge.name,
        task.agent,
        judge.provider,
        judge.model,
        cost.calls,
        cost.usage,
        cost.cost_micro_usd,
    )


def _close_skipped(task: ClaimedTask, reason: str, cost: JudgingCost) -> TaskOutcome:
    receipt = {"judge": task.payload["judge"], "skipped": reason, **_cost_as_json(cost)}
    return TaskOutcome(orjson.dumps(receipt).decode())


def _format_receipt(
    judge: JudgeConfig, cost: JudgingCost, results: Mapping[str, JudgeResult]
) -> str:
    """Return a task's receipt: the judge, the cost, and the scores.

    The rows of the scores contain the reasoning.
    """
    receipt: dict[str, Any] = {
        "judge": judge.name,
        "provider": judge.provider,
        "model": judge.model,
        **_cost_as_json(cost),
        "scores": {name: result.score for name, result in results.items()},
    }
    return orjson.dumps(receipt).decode()


def _cost_as_json(cost: JudgingCost) -> dict[str, Any]:
    return {
        "calls": cost.calls,
        "usage": asdict(cost.usage),
        "cost_micro_usd": cost.cost_micro_usd,
    }
