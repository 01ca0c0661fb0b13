"""The rows that judging reads and writes, beside the scores."""

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from django.db import transaction

from config import live
from core.events import Usage
from core.ids import TurnId, UserId
from judges.ratings import scores
from judges.ratings.scores import Judged
from judges.scoring import judge_context as materials
from judges.scoring.judge_context import MAX_EARLIER, MAX_OF_TURN, Material
from judges.scoring.runner import Bill
from judges.scoring.verdict_parser import Verdict
from memory.transcript import turn_lookup
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.claimed_task import Work
from telemetry.config import TELEMETRY
from telemetry.storage import costs
from telemetry.storage.costs import Paid


def material(user_id: UserId, turn_id: uuid.UUID | None) -> Material | None:
    """Return what a judge reads of a turn that is stored; None where none is."""
    if turn_id is None:
        return None
    past = turn_lookup.read(
        user_id, TurnId(turn_id), earlier=MAX_EARLIER, most=MAX_OF_TURN
    )
    if past is None:
        return None
    return materials.of(past.earlier, past.turn, past.reply.text)


def scored(judged: Judged, verdicts: Mapping[str, Verdict], paid: Paid) -> None:
    """Store what a judge says of a reply, and what it took."""
    scores.write(judged, verdicts)
    costs.add(paid, live.current().get(TELEMETRY))


def failed(
    task: Work, error: BaseException, receipt: str, paid: Paid, *, is_final: bool
) -> bool:
    """Note that a reply could not be judged, and what the attempt cost."""
    with transaction.atomic():
        costs.add(paid, live.current().get(TELEMETRY))
        is_over = lifecycle.failed(task, error, is_final=is_final)
        Task.objects.filter(pk=task.id, attempts=task.attempts).exclude(
            state=Task.State.RUNNING
        ).update(result=receipt)
    return is_over


def billed(task: Work) -> Bill:
    """Return what attempts before this one took, by the receipt they left."""
    left = Task.objects.filter(pk=task.id).values_list("result", flat=True).first()
    try:
        told: dict[str, Any] = orjson.loads(left or "{}")
    except orjson.JSONDecodeError:
        return Bill()
    return Bill(
        told.get("calls", 0),
        Usage(**told.get("usage", {})),
        told.get("cost_micro_usd", 0),
    )
