"""Tasks that judge a reply: what was said is read, a model asked, scores are stored."""

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
from judges.errors import AnswerUnreadable
from judges.ratings.scores import Judged
from judges.runs import judge_queue, persistence
from judges.scoring import runner
from judges.scoring.judge_context import Material
from judges.scoring.runner import Bill
from judges.scoring.verdict_parser import Verdict
from tasks.queue.claimed_task import Work
from tasks.queue.task_kinds import Ending, Kind
from tasks.worker import retry_policy
from telemetry.storage.costs import Paid

logger = logging.getLogger(__name__)

NOT_CONFIGURED = "the judge is no longer configured"
NOT_STORED = "the turn is not stored"


async def run(task: Work) -> Ending:
    """Score one reply; an answer that cannot be read ends the task for good."""
    config = live.current()
    judge = config.get(JUDGES).get(task.payload["judge"])
    # What attempts before this one took stays on the receipt.
    before = await _before(task)
    if judge is None:
        return _skipped(task, NOT_CONFIGURED, before)
    material = await _material(task)
    if material is None:
        return _skipped(task, NOT_STORED, before)
    bill = Bill()
    try:
        verdicts = await runner.ask(
            config, judge, material, user=task.user_id.hex, bill=bill
        )
    except CoulisseError as exc:
        # One that could not be read was asked for twice.
        is_read = not isinstance(exc, AnswerUnreadable)
        is_final = not (is_read and retry_policy.may_pass(exc))
        receipt, paid = _receipt(judge, before + bill, {}), _paid(judge, task, bill)
        await database_executor.run_to_end(
            persistence.failed, task, exc, receipt, paid, is_final=is_final
        )
        # Not what it says: it may quote the model, and the model the user.
        logger.warning(
            "judge '%s' did not score turn %s: %s", judge.name, task.turn_id, exc.code
        )
        return Ending(is_closed=True)
    return Ending(
        _receipt(judge, before + bill, verdicts),
        partial(persistence.scored, _judged(task), verdicts, _paid(judge, task, bill)),
    )


async def _before(task: Work) -> Bill:
    return (
        await database_executor.run(persistence.billed, task)
        if task.attempts > 1
        else Bill()
    )


async def _material(task: Work) -> Material | None:
    told = task.payload.get("material")
    if told is not None:
        return Material.from_json(told)
    return await database_executor.run(persistence.material, task.user_id, task.turn_id)


def _judged(task: Work) -> Judged:
    if task.turn_id is None:
        raise LookupError("a task that judges names the turn it is about")
    return Judged(
        task.turn_id,
        task.user_id,
        task.payload["judge"],
        task.agent,
        task.payload.get("experiment", ""),
        task.payload.get("origin", "chat"),
    )


def _paid(judge: JudgeConfig, task: Work, bill: Bill) -> Paid:
    return Paid(
        *(judge.name, task.agent, judge.provider, judge.model),
        *(bill.calls, bill.usage, bill.cost_micro_usd),
    )


def _skipped(task: Work, why: str, before: Bill) -> Ending:
    told = {"judge": task.payload["judge"], "skipped": why}
    return Ending(orjson.dumps(told | _told(before)).decode())


def _receipt(judge: JudgeConfig, bill: Bill, verdicts: Mapping[str, Verdict]) -> str:
    """Return what a task's row tells of what was asked, what it cost, and the scores.

    Not their reasons: those are in the scores' own rows.
    """
    told: dict[str, Any] = {
        "judge": judge.name,
        "provider": judge.provider,
        "model": judge.model,
        **_told(bill),
        "scores": {name: verdict.score for name, verdict in verdicts.items()},
    }
    return orjson.dumps(told).decode()


def _told(bill: Bill) -> dict[str, Any]:
    return {
        "calls": bill.calls,
        "usage": asdict(bill.usage),
        "cost_micro_usd": bill.cost_micro_usd,
    }


KIND = Kind(
    judge_queue.KIND, run, max_failures=judge_queue.MAX_FAILURES, is_background=True
)
