"""Database access of judge tasks, besides the scores."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from config import live
from core.events import Usage
from core.ids import TurnId, UserId
from judges.models import JudgeTask, Score
from judges.scoring import judge_context
from judges.scoring.judge_context import (
    MAX_EARLIER_MESSAGES,
    MAX_TURN_MESSAGES,
    JudgeContext,
)
from judges.scoring.runner import JudgingCost
from judges.scoring.verdict_parser import JudgeResult
from memory.transcript import turn_lookup
from tasks.models import Task
from telemetry.config import TELEMETRY
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense


def load_context(user_id: UserId, turn_id: uuid.UUID | None) -> JudgeContext | None:
    """Return the judge context of a stored turn, or None."""
    if turn_id is None:
        return None
    stored = turn_lookup.read_turn(
        user_id,
        TurnId(turn_id),
        earlier=MAX_EARLIER_MESSAGES,
        max_messages=MAX_TURN_MESSAGES,
    )
    if stored is None:
        return None
    return judge_context.build_context(stored.earlier, stored.turn, stored.reply.text)


def store_scores(
    task: Task, results: Mapping[str, JudgeResult], expense: CallExpense
) -> None:
    Score.objects.store(
        results,
        turn_id=task.turn_id,
        user_id=task.user_id,
        judge=task.payload["judge"],
        agent=task.agent,
        experiment=task.payload.get("experiment", ""),
        origin=task.payload.get("origin", "chat"),
    )
    costs.record_expense(expense, live.current().get(TELEMETRY))


def store_failure(
    task: Task,
    error: BaseException,
    receipt: str,
    expense: CallExpense,
    *,
    is_final: bool,
) -> bool:
    """Store that a reply could not be judged, and the cost of the attempt."""
    with transaction.atomic():
        costs.record_expense(expense, live.current().get(TELEMETRY))
        is_over = task.fail(error, is_final=is_final)
        Task.objects.filter(pk=task.id, attempts=task.attempts).exclude(
            state=Task.State.RUNNING
        ).update(result=receipt)
    return is_over


def read_cost(task: Task) -> JudgingCost:
    """Return the cost of earlier attempts, from the stored receipt."""
    stored: Any = JudgeTask.objects.only("result").filter(pk=task.id).first()
    receipt = {} if stored is None else stored.receipt
    return JudgingCost(
        receipt.get("calls", 0),
        Usage(**receipt.get("usage", {})),
        receipt.get("cost_micro_usd", 0),
    )
