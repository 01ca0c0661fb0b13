"""Database access of judge tasks, besides the scores."""

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from django.db import transaction

from config import live
from core.events import Usage
from core.ids import TurnId, UserId
from judges.ratings import scores
from judges.ratings.scores import JudgedReply
from judges.scoring import judge_context as materials
from judges.scoring.judge_context import (
    MAX_EARLIER_MESSAGES,
    MAX_TURN_MESSAGES,
    JudgeContext,
)
from judges.scoring.runner import JudgingCost
from judges.scoring.verdict_parser import JudgeResult
from memory.transcript import turn_lookup
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.claimed_task import ClaimedTask
from telemetry.config import TELEMETRY
from telemetry.storage import costs
from telemetry.storage.costs import JudgeExpense


def load_context(user_id: UserId, turn_id: uuid.UUID | None) -> JudgeContext | None:
    """Return the judge context of a stored turn, or None."""
    if turn_id is None:
        return None
    past = turn_lookup.read_turn(
        user_id, TurnId(turn_id), earlier=MAX_EARLIER_MESSAGES, most=MAX_TURN_MESSAGES
    )
    if past is None:
        return None
    return materials.build_context(past.earlier, past.turn, past.reply.text)


def store_scores(
    judged: JudgedReply, verdicts: Mapping[str, JudgeResult], paid: JudgeExpense
) -> None:
    """Store a judge's scores of a reply, and their cost."""
    scores.store_scores(judged, verdicts)
    costs.record_expense(paid, live.current().get(TELEMETRY))


def store_failure(
    task: ClaimedTask,
    error: BaseException,
    receipt: str,
    paid: JudgeExpense,
    *,
    is_final: bool,
) -> bool:
    """Store that a reply could not be judged, and the cost of the attempt."""
    with transaction.atomic():
        costs.record_expense(paid, live.current().get(TELEMETRY))
        is_over = lifecycle.record_failure(task, error, is_final=is_final)
        Task.objects.filter(pk=task.id, attempts=task.attempts).exclude(
            state=Task.State.RUNNING
        ).update(result=receipt)
    return is_over


def read_cost(task: ClaimedTask) -> JudgingCost:
    """Return the cost of earlier attempts, from the stored receipt."""
    left = Task.objects.filter(pk=task.id).values_list("result", flat=True).first()
    try:
        told: dict[str, Any] = orjson.loads(left or "{}")
    except orjson.JSONDecodeError:
        return JudgingCost()
    return JudgingCost(
        told.get("calls", 0),
        Usage(**told.get("usage", {})),
        told.get("cost_micro_usd", 0),
    )
